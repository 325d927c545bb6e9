// A chart that Bokeh draws here, and below it what its colours mean and the numbers as a table.
//
//   item      the empty chart, the same for all viewers
//   content   what it shows now: sources, axes, table, colours

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// A canvas has nothing to say to who comes by the keyboard: the table below it has.
function unreachable(root) {
  for (const node of root.querySelectorAll("*")) {
    if (node.hasAttribute("tabindex")) node.setAttribute("tabindex", "-1");
    if (node.shadowRoot) unreachable(node.shadowRoot);
  }
}

export function render({ model }) {
  const box = make("div", { class: "plot", "aria-hidden": "true" });
  const colours = make("ul", { class: "colours" });
  const table = make("table");
  const label = `${model.title}: numbers`;
  const scroll = make(
    "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
  const details = make("details", {}, make("summary", {}, "As a table"), scroll);
  let drawn = null;
  let asked = false;

  function show({ sources, x, ticks, chosen, factors }) {
    const find = (name) => drawn.get_model_by_name(name);
    if (x) find("x").setv({ start: x[0], end: x[1] });
    if (ticks) find("ticks").ticks = ticks;
    if (chosen) find("chosen").location = chosen;
    if (factors) find("factors").factors = factors;
    for (const [name, columns] of Object.entries(sources)) find(name).data = columns;
  }

  function tell(content) {
    colours.replaceChildren(...content.colours.map(([colour, name]) => {
      const spot = make("span", { class: "spot", "aria-hidden": "true" });
      spot.style.background = colour;
      return make("li", {}, spot, name);
    }));
    colours.hidden = content.colours.length === 0;
    const { headings, rows } = content.table;
    const head = make("tr", {}, ...headings.map((text) => make("th", { scope: "col" }, text)));
    const body = rows.map(([first, ...rest]) => make("tr", {},
      make("th", { scope: "row" }, first), ...rest.map((text) => make("td", {}, text))));
    table.replaceChildren(
      make("caption", {}, model.title), make("thead", {}, head), make("tbody", {}, ...body));
  }

  async function update() {
    const content = JSON.parse(model.content);
    if (content.sources === undefined) return;
    tell(content);
    if (drawn !== null) {
      show(content);
      return;
    }
    // Not before there is something: an empty logarithmic axis has no range.
    if (asked) return;
    asked = true;
    const views = await Bokeh.embed.embed_item(JSON.parse(model.item), box);
    drawn = [...views][0].model.document;
    box.drawn = drawn;
    show(JSON.parse(model.content));
    unreachable(box);
  }

  requestAnimationFrame(update);
  model.on("content", update);
  const whole = make("div", { class: "whole" }, box, colours, details);
  if (model.has_heading) whole.prepend(make("h3", {}, model.title));
  return whole;
}
