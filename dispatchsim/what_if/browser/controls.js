// The controls: native and labelled, made from `spec`; the choice is returned as a query string.
//
//   input ─► choose ─► address of the page
//                └─► model.chosen = {turn, query}      at most every PAUSE_MS during a drag
//
// Values from the server are written as text, never as markup.

const PAUSE_MS = 120;

function nearest(values, value) {
  let best = 0;
  values.forEach((each, i) => {
    if (Math.abs(each - value) < Math.abs(values[best] - value)) best = i;
  });
  return best;
}

function shown(setting, value) {
  if (value === 0 && setting.zero) return setting.zero;
  if (setting.key === "reply" && value >= 1024) return `${value / 1024} KiB`;
  return value.toLocaleString("en") + setting.unit;
}

export function render({ model }) {
  const spec = JSON.parse(model.spec);
  const form = make("form", { class: "controls", "aria-label": "Settings of the simulation" });
  form.addEventListener("submit", (event) => event.preventDefault());
  const first = JSON.parse(model.state);
  const values = { ...first.values };
  let turn = first.turn, sent = 0, timer = null;

  function send() {
    sent = performance.now();
    timer = null;
    turn += 1;
    const query = new URLSearchParams(values).toString().replaceAll("%2C", ",");
    if (model.live) history.replaceState(null, "", `?${query}`);
    model.chosen = { turn, query };
  }

  function choose(key, value) {
    values[key] = String(value);
    if (timer === null) {
      timer = setTimeout(send, Math.max(0, PAUSE_MS - (performance.now() - sent)));
    }
  }

  function row(setting, control, output) {
    const about = make("p", { class: "about", id: `about-${setting.key}` }, setting.about);
    const label = make("label", { for: `set-${setting.key}` }, setting.label);
    const head = make("div", { class: "head" }, label);
    if (output) head.append(output);
    return make("div", { class: "setting" }, head, control, about);
  }

  function slider(setting) {
    const input = make("input", {
      type: "range", id: `set-${setting.key}`, min: 0, max: setting.values.length - 1, step: 1,
      "aria-describedby": `about-${setting.key}`,
    });
    const output = make("output", { for: `set-${setting.key}` });
    const tell = (value) => {
      output.textContent = shown(setting, value);
      input.setAttribute("aria-valuetext", output.textContent);
      const part = 100 * Number(input.value) / (setting.values.length - 1);
      input.style.setProperty("--part", `${part}%`);
    };
    input.value = nearest(setting.values, Number(values[setting.key]));
    tell(Number(values[setting.key]));
    input.addEventListener("input", () => {
      const value = setting.values[Number(input.value)];
      tell(value);
      choose(setting.key, value);
    });
    return row(setting, input, output);
  }

  function select(setting) {
    const list = make("select", {
      id: `set-${setting.key}`, "aria-describedby": `about-${setting.key}`,
    });
    for (const option of setting.options) {
      list.append(make("option", { value: option.name }, option.label));
    }
    list.value = values[setting.key];
    list.addEventListener("change", () => choose(setting.key, list.value));
    return row(setting, list);
  }

  const boxes = new Map();
  const few = make("div", { class: "boxes" });
  const other = make("div", { class: "boxes" });
  const summary = make("summary");
  const rest = make("details", {}, summary, other);
  for (const mechanism of spec.mechanisms) {
    const id = `mechanism-${mechanism.name}`;
    const box = make("input", { type: "checkbox", id, "aria-describedby": `${id}-note` });
    const note = make("span", { class: "note", id: `${id}-note` });
    const label = make("label", { for: id, title: mechanism.about });
    label.append(swatch(mechanism.look), mechanism.name);
    const line = make("div", { class: "box" }, box, label, note);
    box.addEventListener("change", () => {
      const ticked = [...boxes].filter(([, each]) => each.box.checked).map(([name]) => name);
      const full = ticked.length > spec.most;
      if (ticked.length === 0 || full) {
        box.checked = !box.checked;
        limit.textContent = full
          ? `At most ${spec.most} at once: remove one first.`
          : "At least one is needed.";
        return;
      }
      limit.textContent = "";
      // In the order in which they were chosen.
      const before = values.mechanisms.split(",").filter((name) => ticked.includes(name));
      const now = ticked.filter((name) => !before.includes(name));
      choose("mechanisms", [...before, ...now].join(","));
    });
    boxes.set(mechanism.name, { box, note, line });
  }
  const limit = make("p", { class: "limit", role: "status" });

  function tellState() {
    const { notes, priced, measured } = JSON.parse(model.state);
    const chosen = values.mechanisms.split(",");
    let late = 0;
    for (const [name, { box, note, line }] of boxes) {
      box.checked = chosen.includes(name);
      note.textContent = notes[name] ?? (priced.includes(name) ? "" : "no costs in this profile");
      const home = measured.includes(name) || box.checked ? few : other;
      if (home === other) late += 1;
      // A box with the focus stays in its place.
      if (line.parentNode !== home && document.activeElement !== box) home.append(line);
      box.disabled = !priced.includes(name) && !box.checked;
    }
    summary.textContent = `${late} more, not measured on this machine`;
    rest.hidden = late === 0;
  }

  tellState();
  model.on("state", tellState);

  const group = (title, ...children) =>
    make("fieldset", {}, make("legend", {}, title), ...children);
  // On a small screen the answer should not be far below the sliders.
  const isWide = window.matchMedia("(min-width: 821px)").matches;
  const folded = (title, ...children) => {
    const details = make("details", { class: "group" }, make("summary", {}, title),
      make("fieldset", { "aria-label": title }, ...children));
    details.open = isWide;
    return details;
  };
  const by = (key) => {
    const found = spec.sliders.find((each) => each.key === key);
    return found ? slider(found) : select(spec.selects.find((each) => each.key === key));
  };
  const more = make("details", { class: "more" }, make("summary", {}, "More settings"),
    by("reply"), by("patience"), by("accept"), by("backlog"), by("overload"));
  form.append(
    group("Load", by("rate"), by("idle"), by("style")),
    folded("Mechanisms to compare", few, rest, limit),
    folded("Machine, server and clients", by("profile"), more),
  );
  return form;
}
