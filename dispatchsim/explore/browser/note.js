// Below a chart: what its colours mean, and the same numbers as a table.

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function render({ model }) {
  const colours = make("ul", { class: "colours" });
  const table = make("table");
  const scroll = make("div", { class: "scroll", tabindex: 0, role: "region" }, table);
  scroll.setAttribute("aria-label", `${model.title}: numbers`);
  const summary = make("summary", {}, "As a table");
  const details = make("details", {}, summary, scroll);

  function tell() {
    colours.replaceChildren(...model.colours.map(([colour, name]) => {
      const spot = make("span", { class: "spot", "aria-hidden": "true" });
      spot.style.background = colour;
      return make("li", {}, spot, name);
    }));
    colours.hidden = model.colours.length === 0;
    const { headings, rows } = model.table;
    const head = make("tr", {}, ...headings.map((text) => make("th", { scope: "col" }, text)));
    const body = rows.map(([first, ...rest]) => make("tr", {},
      make("th", { scope: "row" }, first), ...rest.map((text) => make("td", {}, text))));
    table.replaceChildren(
      make("caption", {}, model.title), make("thead", {}, head), make("tbody", {}, ...body));
  }
  tell();
  model.on("table", tell);
  model.on("colours", tell);
  return make("div", { class: "under" }, colours, details);
}
