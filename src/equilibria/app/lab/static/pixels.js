// Neurons as squares on a canvas, and painting on it.

import { el, mix, rgb } from "./dom.js";

export class Pixels {
  constructor({ columns, rows = columns, label, paint = null }) {
    this.columns = columns;
    this.rows = rows;
    this.canvas = el("canvas", { class: "pixels", width: columns, height: rows, role: "img", "aria-label": label });
    this.context = this.canvas.getContext("2d");
    this.image = this.context.createImageData(columns, rows);
    if (paint) this.paintable(paint);
  }

  label(text) { this.canvas.setAttribute("aria-label", text); }

  // `shade(index)` gives [red, green, blue].
  draw(shade) {
    const data = this.image.data;
    for (let index = 0; index < this.columns * this.rows; index++) {
      const [red, green, blue] = shade(index);
      data.set([red, green, blue, 255], 4 * index);
    }
    this.context.putImageData(this.image, 0, 0);
  }

  // Neurons of -1, 0 and +1; where a goal is given, those that disagree with it stand out.
  spins(values, goal = null) {
    const ink = rgb("--ink"), paper = rgb("--paper"), wrong = rgb("--c1");
    const faint = mix(paper, wrong, 0.38), middle = mix(paper, ink, 0.3);
    this.values = values;
    this.draw((index) => {
      const value = values[index];
      if (value === 0) return middle;
      const off = goal && goal[index] !== value;
      return value > 0 ? (off ? wrong : ink) : (off ? faint : paper);
    });
  }

  // Numbers from 0 to 1 as shades of ink.
  shades(values, high = 1) {
    const ink = rgb("--ink"), paper = rgb("--paper");
    this.draw((index) => mix(paper, ink, Math.max(0, Math.min(1, values[index] / high))));
  }

  // Numbers about zero: one colour below, another above.
  signed(values, reach) {
    const paper = rgb("--paper"), low = rgb("--c0"), high = rgb("--c1");
    this.draw((index) => {
      const part = Math.max(-1, Math.min(1, values[index] / (reach || 1)));
      return mix(paper, part < 0 ? low : high, Math.abs(part));
    });
  }

  paintable({ begin, move, end }) {
    this.canvas.classList.add("paintable");
    let painting = false;
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      const x = Math.floor(((event.clientX - box.left) / box.width) * this.columns);
      const y = Math.floor(((event.clientY - box.top) / box.height) * this.rows);
      return [Math.max(0, Math.min(this.columns - 1, x)), Math.max(0, Math.min(this.rows - 1, y))];
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      painting = true;
      this.canvas.setPointerCapture(event.pointerId);
      begin(event);
      move(...place(event), event);
      event.preventDefault();
    });
    this.canvas.addEventListener("pointermove", (event) => { if (painting) move(...place(event), event); });
    const stop = () => { if (painting) { painting = false; end(); } };
    this.canvas.addEventListener("pointerup", stop);
    this.canvas.addEventListener("pointercancel", stop);
    this.canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  }
}

// Pictures of 28 x 28 in the address: a bit for each neuron, in base64 without padding.
export function toBits(values) {
  let text = "";
  for (let place = 0; place < values.length; place += 8) {
    let byte = 0;
    for (let bit = 0; bit < 8; bit++) byte = (byte << 1) | (values[place + bit] > 0 ? 1 : 0);
    text += String.fromCharCode(byte);
  }
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
