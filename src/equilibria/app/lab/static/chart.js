// Charts in SVG: theory as lines, simulation as points, on the same axes.

import { el, svg, short } from "./dom.js";

let charts = 0;
const ruler = document.createElement("canvas").getContext("2d");

function wide(text) {
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((part) => part * power).find((each) => each >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; power++) found.push(10 ** power);
  return found.length > 1 ? found : [low, high];
}

// The label of a tick: powers of ten are written as such where decimals would be long.
const POWERS = Object.fromEntries([..."0123456789"].map((digit, index) => [digit, "⁰¹²³⁴⁵⁶⁷⁸⁹"[index]]).concat([["-", "⁻"]]));
function told(value, log) {
  const power = log ? Math.round(Math.log10(value)) : 0;
  return (power < -2 || power > 4) && Math.abs(value / 10 ** power - 1) < 1e-6 ? `10${[...String(power)].map((sign) => POWERS[sign]).join("")}` : short(value);
}

export class Chart {
  // x, y: { label, lim: [low, high] or null for what the layers need, log }; height is the least, a card may have more room
  constructor({ label, x, y, height: least = 250, legend = true, describe = null }) {
    Object.assign(this, { label, x, y, least, legend, describe, layers: new Map(), queued: false, number: charts++ });
    this.root = svg("svg", { class: "chart", role: "img", "aria-label": label });
    this.host = el("div", { class: "host" }, this.root);
    this.host.style.minHeight = `${least}px`;
    new ResizeObserver(() => this.queue()).observe(this.host);
  }

  // kind: line, points, area, vline, hline, mark, rect, words
  set(name, layer) {
    if (layer === null) this.layers.delete(name); else this.layers.set(name, layer);
    this.queue();
  }

  clear(prefix = "") {
    for (const name of [...this.layers.keys()]) if (name.startsWith(prefix)) this.layers.delete(name);
    this.queue();
  }

  limits(x, y) {
    if (x) this.x.lim = x;
    if (y) this.y.lim = y;
    this.queue();
  }

  queue() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => { this.queued = false; this.draw(); });
  }

  extent(axis) {
    const given = this[axis].lim;
    if (given) return given;
    let low = Infinity, high = -Infinity;
    for (const layer of this.layers.values()) {
      for (const value of layer[axis] || []) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
    }
    if (low > high) return this[axis].log ? [0.1, 10] : [0, 1];
    if (this[axis].log) return low === high ? [low / 2, high * 2] : [low, high];
    if (low === high) return [low - 0.5, high + 0.5];
    const room = (this[axis].pad ?? (axis === "y" ? 0.06 : 0)) * (high - low);
    return [low - room, high + room];
  }

  // From data to pixels and back.
  place(axis, value) {
    const { log } = this[axis];
    const [low, high] = this.shown[axis];
    const part = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    const { left, top, width, height } = this.box;
    return axis === "x" ? left + part * width : top + (1 - part) * height;
  }

  value(axis, pixel) {
    const [low, high] = this.shown[axis];
    const { left, top, width, height } = this.box;
    const part = Math.max(0, Math.min(1, axis === "x" ? (pixel - left) / width : 1 - (pixel - top) / height));
    return this[axis].log ? low * (high / low) ** part : low + part * (high - low);
  }

  draw() {
    const whole = this.host.clientWidth;
    if (!whole) return;
    this.height = Math.max(this.least, this.host.clientHeight);
    this.shown = { x: this.extent("x"), y: this.extent("y") };
    const entries = this.legend ? [...this.layers.values()].filter((layer) => layer.label) : [];
    const rows = this.rows(entries, whole - 50);
    const top = 8 + 17 * rows.length;
    this.box = { left: 46, top, width: whole - 46 - 12, height: this.height - top - 38 };
    const left = 30 + Math.max(14, ...this.ticks("y").map((at) => wide(told(at, this.y.log))));
    this.box = { ...this.box, left, width: whole - left - 12 };
    this.root.setAttribute("viewBox", `0 0 ${whole} ${this.height}`);
    this.root.setAttribute("height", this.height);
    const id = `clip-${this.number}`;
    const { width, height } = this.box;
    const inside = svg("g", { "clip-path": `url(#${id})` });
    const over = svg("g", {});
    for (const layer of this.layers.values()) (layer.over ? over : inside).append(...this.shapes(layer));
    this.root.replaceChildren(
      svg("title", { text: this.describe ? this.describe() : this.label }),
      svg("defs", {}, svg("clipPath", { id }, svg("rect", { x: left, y: top, width, height }))),
      this.grid(), inside, this.axes(), over, this.keys(rows),
    );
  }

  rows(entries, room) {
    const rows = [];
    let used = Infinity;
    for (const entry of entries) {
      const taken = 42 + wide(entry.label);
      if (used + taken > room) { rows.push([]); used = 0; }
      rows.at(-1).push([used, entry]);
      used += taken;
    }
    return rows;
  }

  keys(rows) {
    const group = svg("g", {});
    rows.forEach((row, line) => row.forEach(([at, layer]) => {
      const x = 40 + at, y = 9 + 17 * line;
      if (layer.kind === "points" || layer.kind === "mark") group.append(this.dot(x + 11, y, layer));
      else if (layer.kind === "area") group.append(svg("rect", { x: x + 3, y: y - 5, width: 16, height: 10, fill: layer.colour, stroke: "var(--line)" }));
      else group.append(svg("line", { x1: x, x2: x + 22, y1: y, y2: y, stroke: layer.colour, "stroke-width": layer.width || 1.8, "stroke-dasharray": layer.dash }));
      group.append(svg("text", { x: x + 27, y: y + 4, text: layer.label }));
    }));
    return group;
  }

  grid() {
    const { left, top, width, height } = this.box;
    const group = svg("g", {});
    for (const at of this.ticks("y")) group.append(svg("line", { class: "grid", x1: left, x2: left + width, y1: this.place("y", at), y2: this.place("y", at) }));
    for (const at of this.ticks("x")) group.append(svg("line", { class: "grid", y1: top, y2: top + height, x1: this.place("x", at), x2: this.place("x", at) }));
    return group;
  }

  ticks(axis) {
    const [low, high] = this.shown[axis];
    if (this[axis].log) return logTicks(low, high);
    return ticks(low, high, axis === "x" ? this.box.width / 85 : this.box.height / 45);
  }

  axes() {
    const { left, top, width, height } = this.box;
    const group = svg("g", {}, svg("path", { class: "axis", d: `M${left},${top}V${top + height}H${left + width}` }));
    for (const at of this.ticks("x")) group.append(svg("text", { class: "soft", x: this.place("x", at), y: top + height + 15, "text-anchor": "middle", text: told(at, this.x.log) }));
    for (const at of this.ticks("y")) group.append(svg("text", { class: "soft", x: left - 6, y: this.place("y", at) + 4, "text-anchor": "end", text: told(at, this.y.log) }));
    group.append(svg("text", { x: left + width / 2, y: top + height + 32, "text-anchor": "middle", text: this.x.label }));
    group.append(svg("text", { x: 11, y: top + height / 2, "text-anchor": "middle", transform: `rotate(-90 11 ${top + height / 2})`, text: this.y.label }));
    return group;
  }

  path(x, y) {
    let text = "", pen = false;
    for (let index = 0; index < x.length; index++) {
      const good = Number.isFinite(x[index]) && Number.isFinite(y[index]) && !(this.x.log && x[index] <= 0) && !(this.y.log && y[index] <= 0);
      if (good) text += `${pen ? "L" : "M"}${this.place("x", x[index]).toFixed(1)},${this.place("y", y[index]).toFixed(1)}`;
      pen = good;
    }
    return text;
  }

  dot(x, y, { colour, size = 4, hollow = true, fill = null }) {
    return svg("circle", { cx: x, cy: y, r: size, fill: fill || (hollow ? "var(--card)" : colour), stroke: colour, "stroke-width": 1.5 });
  }

  shapes(layer) {
    const { left, top, width, height } = this.box;
    switch (layer.kind) {
      case "line":
        return [svg("path", { d: this.path(layer.x, layer.y), fill: "none", stroke: layer.colour, "stroke-width": layer.width || 1.8, "stroke-dasharray": layer.dash, "stroke-linejoin": "round", opacity: layer.opacity })];
      case "area":
        return [svg("path", { d: `${this.path(layer.x, layer.y)}Z`, fill: layer.colour, opacity: layer.opacity })];
      case "points":
        return this.points(layer);
      case "vline":
        return [svg("line", { x1: this.place("x", layer.x[0]), x2: this.place("x", layer.x[0]), y1: top, y2: top + height, stroke: layer.colour, "stroke-width": layer.width || 1.4, "stroke-dasharray": layer.dash })];
      case "hline":
        return [svg("line", { y1: this.place("y", layer.y[0]), y2: this.place("y", layer.y[0]), x1: left, x2: left + width, stroke: layer.colour, "stroke-width": layer.width || 1.4, "stroke-dasharray": layer.dash })];
      case "band":
        return [svg("rect", { x: left, width, y: this.place("y", layer.y[1]), height: Math.max(1, this.place("y", layer.y[0]) - this.place("y", layer.y[1])), fill: layer.colour, opacity: layer.opacity || 0.2 })];
      case "rect": {
        const [x0, x1] = layer.x.map((value) => this.place("x", value)), [y1, y0] = layer.y.map((value) => this.place("y", value));
        return [svg("rect", { x: Math.min(x0, x1), y: Math.min(y0, y1), width: Math.abs(x1 - x0), height: Math.abs(y1 - y0), fill: layer.colour, "fill-opacity": 0.12, stroke: layer.colour, "stroke-dasharray": "4 3" })];
      }
      case "mark": {
        const x = this.place("x", layer.x[0]), y = this.place("y", layer.y[0]);
        return [svg("circle", { cx: x, cy: y, r: 7, fill: layer.colour, stroke: "var(--page)", "stroke-width": 2.5 })];
      }
      case "words":
        return [svg("text", { class: "tag soft", x: this.place("x", layer.x[0]), y: this.place("y", layer.y[0]), "text-anchor": layer.anchor || "middle", text: layer.text })];
      default:
        return [];
    }
  }

  points(layer) {
    if (!layer.titles && !layer.error && layer.hollow === false) return [this.dots(layer)];
    const found = [];
    for (let index = 0; index < layer.x.length; index++) {
      if (!Number.isFinite(layer.x[index]) || !Number.isFinite(layer.y[index])) continue;
      const x = this.place("x", layer.x[index]), y = this.place("y", layer.y[index]);
      const error = layer.error ? layer.error[index] : null;
      if (Number.isFinite(error) && error > 0) {
        found.push(svg("line", { x1: x, x2: x, y1: this.place("y", layer.y[index] - error), y2: this.place("y", layer.y[index] + error), stroke: layer.colour, "stroke-width": 1 }));
      }
      const dot = this.dot(x, y, { ...layer, fill: layer.fills ? layer.fills[index] : layer.fill });
      if (layer.titles) dot.append(svg("title", { text: layer.titles[index] }));
      found.push(dot);
    }
    return found;
  }

  // Many small points as one shape: a browser is much faster with it than with a thousand circles.
  dots({ x, y, colour, size = 4 }) {
    let d = "";
    x.forEach((_, index) => { if (Number.isFinite(x[index]) && Number.isFinite(y[index])) d += `M${this.place("x", x[index]).toFixed(1)},${this.place("y", y[index]).toFixed(1)}h0`; });
    return svg("path", { d, fill: "none", stroke: colour, "stroke-width": 2 * size + 1.5, "stroke-linecap": "round" });
  }

  // A point chosen by mouse, finger or arrow keys; with `select` a rectangle drawn by dragging.
  pick({ choose, select = null, now }) {
    this.root.classList.add("clickable");
    this.root.setAttribute("tabindex", "0");
    let start = null;
    const at = (event) => {
      const box = this.root.getBoundingClientRect();
      return [this.value("x", event.clientX - box.left), this.value("y", event.clientY - box.top)];
    };
    this.root.addEventListener("pointerdown", (event) => {
      start = { point: at(event), x: event.clientX, y: event.clientY };
      this.root.setPointerCapture(event.pointerId);
    });
    this.root.addEventListener("pointermove", (event) => {
      if (!start || !select) return;
      const [x, y] = at(event);
      this.set("selection", { kind: "rect", x: [start.point[0], x], y: [start.point[1], y], colour: "var(--c6)" });
    });
    this.root.addEventListener("pointerup", (event) => {
      if (!start) return;
      const far = Math.hypot(event.clientX - start.x, event.clientY - start.y) > 8;
      const [x, y] = at(event), [x0, y0] = start.point;
      start = null;
      if (far && select) select([Math.min(x0, x), Math.max(x0, x)], [Math.min(y0, y), Math.max(y0, y)]);
      else { if (select) this.set("selection", null); choose(x, y); }
    });
    this.root.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const [x, y] = now(), reach = ["x", "y"].map((axis) => this.shown[axis][1] - this.shown[axis][0]);
      const inside = (value, [low, high]) => Math.max(low, Math.min(high, value));
      choose(inside(x + 0.02 * step[0] * reach[0], this.shown.x), inside(y + 0.02 * step[1] * reach[1], this.shown.y));
    });
  }
}
