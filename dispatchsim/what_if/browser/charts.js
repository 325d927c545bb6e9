// Charts, drawn by Bokeh; below each a legend of its colours and its numbers as a table.
//
//   panels     names and empty charts, the same for all viewers
//   contents   their current data, by key: sources, axes, table, colours

// A canvas is useless with a keyboard, so it is skipped: the table below it is reachable.
function unreachable(root) {
  for (const node of root.querySelectorAll("*")) {
    if (node.hasAttribute("tabindex")) node.setAttribute("tabindex", "-1");
    if (node.shadowRoot) unreachable(node.shadowRoot);
  }
}

function chart({ key, title, about, item }, heading) {
  const box = make("div", { class: "plot", "aria-hidden": "true" });
  const colours = make("ul", { class: "colours" });
  const table = make("table");
  const label = `${title}: numbers`;
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
      make("caption", {}, title), make("thead", {}, head), make("tbody", {}, ...body));
  }

  let latest = null;

  async function update(content) {
    latest = content;
    tell(content);
    if (drawn !== null) {
      show(content);
      return;
    }
    // Only once there are data: an empty logarithmic axis has no range.
    if (asked) return;
    asked = true;
    const views = await Bokeh.embed.embed_item(JSON.parse(item), box);
    drawn = [...views][0].model.document;
    box.drawn = drawn;
    show(latest);
    unreachable(box);
  }

  const node = make("section", { class: "chart", "data-chart": key, "aria-labelledby": `title-${key}` },
    make(heading, { id: `title-${key}` }, title), make("p", {}, about), box, colours, details);
  return { node, update };
}

export function render({ model }) {
  const charts = {};
  for (const panel of JSON.parse(model.panels)) charts[panel.key] = chart(panel, model.heading);

  function update() {
    for (const [key, content] of Object.entries(JSON.parse(model.contents)))
      charts[key].update(content);
  }

  requestAnimationFrame(update);
  model.on("contents", update);
  return make("div", { class: "charts" }, ...Object.values(charts).map(({ node }) => node));
}
