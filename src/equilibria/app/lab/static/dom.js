// Small helpers: elements, numbers, colours. Text always goes in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-4)) return value.toExponential(1).replace("-", "−");
  return value.toFixed(digits).replace("-", "−");
}

// An uncertainty: what is below the last digit shown is said to be.
export const within = (value) => (value < 5e-4 ? "± < 0.001" : `± ${number(value)}`);

export const short = (value) => String(Number(value.toPrecision(4)));

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function rgb(name) {
  const text = colour(name);
  const hex = text.length === 4 ? [...text.slice(1)].map((c) => c + c).join("") : text.slice(1);
  return [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16));
}

export const mix = (from, to, part) => from.map((value, index) => value + (to[index] - value) * part);

// A card of the stage; `data-figure` puts it into the exported picture.
export function card(title, { width = 6, note = "", id = null } = {}, ...children) {
  const side = el("small", { text: note });
  const heading = el("h3", {}, el("span", { text: title }), side);
  const box = el("section", { class: `card w${width}`, id, "data-figure": title, "aria-label": title }, heading, ...children);
  return { box, note: (text) => { side.textContent = text; } };
}

// Named numbers at the top of a room; each can be read off by its id.
export function numbers(...rows) {
  const list = el("dl", { class: "numbers" });
  const cells = {};
  for (const [id, label, word] of rows) {
    cells[id] = el("dd", { id: `n-${id}`, class: word ? "word" : null }, el("span", { text: "–" }));
    list.append(el("div", {}, el("dt", { text: label }), cells[id]));
  }
  return {
    list,
    set(id, value, small = "") {
      cells[id].replaceChildren(el("span", { text: value }), el("small", { text: small ? ` ${small}` : "" }));
    },
  };
}
