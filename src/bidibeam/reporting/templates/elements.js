// Elements from code. Strings become text, so that nothing that a model wrote is read as HTML.

const SVG_NAMES = ["svg", "g", "path", "text", "circle", "title", "rect"];

// make("td.text", { title: "..." }, "children"): classes behind points; attributes and children may be missing.
function make(spec, ...rest) {
  const [name, ...classes] = spec.split(".");
  const attributes = rest[0]?.constructor === Object ? rest.shift() : {};
  const isSvg = SVG_NAMES.includes(name);
  const element = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  if (classes.length) element.classList.add(...classes);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...rest.flat().filter(Boolean));
  return element;
}

const UNPRINTABLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]/gu;
const clean = (text) => String(text).replace(UNPRINTABLE, "");
const shown = (text) => clean(text).trim() || "(nothing)";
const quote = (text) => make("q", make("bdi", shown(text)));

// A table's row, or its head: cells from texts or lists of children.
const row = (...cells) => make("tr", cells.map((cell) => (cell instanceof Element ? cell : make("td", cell))));
const head = (text) => make("th", { scope: "row" }, text);

// Boxes that scroll say so, and in which directions; others do not.
function showOverflow() {
  for (const box of document.querySelectorAll(".explanation .scroll")) {
    const ways = [
      box.scrollWidth > box.clientWidth + 1 && "sideways \u2194",
      box.scrollHeight > box.clientHeight + 1 && "down \u2195",
    ].filter(Boolean);
    box.nextElementSibling.replaceChildren(ways.length ? `scrolls ${ways.join(" and ")}` : "");
  }
}

// Scrolls what is out of sight to the middle of its box, and the page nowhere.
function centre(element) {
  const box = element.closest(".scroll");
  const [inner, outer] = [element, box].map((each) => each.getBoundingClientRect());
  const middle = (start, size) => inner[start] + inner[size] / 2 - outer[start] - outer[size] / 2;
  if (inner.right > outer.right) box.scrollLeft += middle("left", "width");
  if (inner.bottom > outer.bottom) box.scrollTop += middle("top", "height");
}
