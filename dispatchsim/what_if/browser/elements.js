// Functions that all parts use; `page.py` prepends this file to each of them.

const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// A sample of a mechanism's line, beside its name.
function swatch(look) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 34 12");
  svg.setAttribute("class", "swatch");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "line");
  for (const [name, value] of Object.entries({
    x1: 1, x2: 33, y1: 6, y2: 6, stroke: look.colour, "stroke-width": 2.5,
    "stroke-dasharray": look.dashes.join(" "),
  })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}
