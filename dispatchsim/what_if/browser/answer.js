// The answer in words, warnings, the legend, and the downloads.

function save(file) {
  const bytes = Uint8Array.from(atob(file.content), (each) => each.charCodeAt(0));
  const address = URL.createObjectURL(new Blob([bytes], { type: file.kind }));
  const link = make("a", { href: address, download: file.name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export function render({ model, view }) {
  const sentence = make("p", { class: "sentence", role: "status", "aria-live": "polite" });
  const notices = make("ul", { class: "notices" });
  const alert = make("div", { role: "alert" }, notices);
  const lost = make("p", { class: "lost" },
    "The server has ended or cannot be reached, so this page is no longer updated. " +
    "Start the server again, then reload this page.");
  lost.hidden = true;
  alert.prepend(lost);
  view.model.document?.on_event("connection_lost", () => { lost.hidden = false; });
  const cautions = make("ul", { class: "cautions" });
  const legend = make("ul", { class: "legend", "aria-label": "Lines of the charts" });
  const bar = make("progress", { max: 1, "aria-label": "Simulated" });
  const progress = make("span", { class: "progress" });
  const told = make("span", { class: "told", role: "status" });
  const wishes = make("div", { class: "wishes", role: "group", "aria-label": "Download" });
  let n = 0;
  for (const [what, label] of [
    ["scenario", "Scenario (TOML)"], ["data", "Data (CSV)"], ["figure", "Picture (PNG)"],
  ]) {
    const button = make("button", { type: "button" }, label);
    button.addEventListener("click", () => {
      told.textContent = "";
      model.wish = { n: (n += 1), what };
    });
    wishes.append(button);
  }
  if (model.live) {
    const button = make("button", { type: "button" }, "Copy link");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(location.href);
        told.textContent = "Link copied.";
      } catch {
        told.textContent = "Copy the link from the browser's address line.";
      }
    });
    wishes.append(button);
  }
  wishes.append(told);

  function texts(list, items) {
    const old = [...list.children].map((each) => each.textContent);
    if (JSON.stringify(old) === JSON.stringify(items)) return;
    list.replaceChildren(...items.map((item) => make("li", {}, item)));
    list.hidden = items.length === 0;
  }

  function tell() {
    const now = JSON.parse(model.answer);
    // A screen reader reads the sentence out only when it changes.
    if (sentence.textContent !== now.sentence) sentence.textContent = now.sentence;
    texts(notices, now.notices);
    texts(cautions, now.cautions);
    bar.value = now.share;
    progress.textContent = now.progress;
    legend.replaceChildren(
      ...now.legend.map((each) => make("li", {}, swatch(each.look), each.name)));
  }
  notices.hidden = cautions.hidden = true;
  tell();
  model.on("answer", tell);
  model.on("file", () => {
    if (model.file.error) told.textContent = model.file.error;
    else save(model.file);
  });
  const foot = make("div", { class: "foot" }, make("div", { class: "doing" }, bar, progress), wishes);
  return make("div", { class: "answer" }, sentence, alert, cautions, legend, foot);
}
