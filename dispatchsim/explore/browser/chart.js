// A chart that Bokeh draws here: `item` is the empty one, `figures` what it shows.

export function render({ model }) {
  const box = document.createElement("div");
  box.className = "plot";
  box.setAttribute("aria-hidden", "true");
  const unreachable = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.hasAttribute("tabindex")) node.setAttribute("tabindex", "-1");
      if (node.shadowRoot) unreachable(node.shadowRoot);
    }
  };
  let drawn = null;
  let asked = false;

  function show() {
    const { sources, x, ticks, chosen, factors } = model.figures;
    if (drawn === null || sources === undefined) return;
    const find = (name) => drawn.get_model_by_name(name);
    if (x) find("x").setv({ start: x[0], end: x[1] });
    if (ticks) find("ticks").ticks = ticks;
    if (chosen) find("chosen").location = chosen;
    if (factors) find("factors").factors = factors;
    for (const [name, columns] of Object.entries(sources)) find(name).data = columns;
  }

  // Not before there is something: an empty logarithmic axis has no range.
  async function draw() {
    if (asked || model.figures.sources === undefined) return;
    asked = true;
    const views = await Bokeh.embed.embed_item(JSON.parse(model.item), box);
    drawn = [...views][0].model.document;
    box.drawn = drawn;
    show();
    // A canvas has nothing to say to who comes by the keyboard: the table below has.
    unreachable(box);
  }
  requestAnimationFrame(draw);
  model.on("figures", () => {
    draw();
    show();
  });
  const heading = document.createElement("h3");
  heading.textContent = model.heading;
  heading.hidden = model.heading === "";
  const whole = document.createElement("div");
  whole.append(heading, box);
  return whole;
}
