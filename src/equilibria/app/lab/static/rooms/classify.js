// Learn to classify: equilibrium propagation, its free and its nudged phase, and a digit of one's own.

import { Chart } from "../chart.js";
import { card, el, number, numbers } from "../dom.js";
import { Pixels } from "../pixels.js";

const FINE = 32; // the drawing's side: four times that of the digits

export function build(ctx) {
  const { stage, state } = ctx;
  const told = numbers(["error", "Test error"], ["epoch", "Epoch"], ["cosine", "Cosine to gradient"], ["answer", "Its answer"], ["truth", "The digit is"]);
  const drawing = new Pixels({ columns: FINE, label: "Draw a digit here", paint: painting() });
  let ink = new Float32Array(FINE * FINE), layers = [], strips = {}, phases = null, tick = 0, timer = null, rows = [];

  const bars = el("div", { class: "bars", role: "img", "aria-label": "Outputs" });
  const cells = Array.from({ length: 10 }, (_, digit) => {
    const bar = el("i", {}), value = el("span", {});
    bars.append(el("span", { text: String(digit) }), bar, value);
    return { bar, value };
  });
  const draw = card("Draw a digit", { width: 3 }, drawing.canvas, el("div", { class: "row" },
    el("button", { type: "button", id: "wipe", text: "Clear", onclick: wipe }),
    el("button", { type: "button", id: "test-digit", text: "Next test digit", onclick: () => { ctx.turn("which", "number"); ctx.turn("shown", (state.shown + 1) % 360); } })));
  const answer = card("Its answer", { width: 3, note: "" }, bars);
  const strip = el("div", { id: "strips" });
  const layered = card("Layer by layer", { width: 6, note: "" }, strip, el("p", { text: "Left: the free phase from rest. Right: by how much each neuron moves when the output is nudged; the nudge travels back, a layer at a time." }));
  const error = new Chart({ label: "Test error against epochs", height: 240, x: { label: "epoch", lim: null }, y: { label: "test error", lim: [0, 1] }, legend: false });
  const cosines = new Chart({ label: "Cosine between the contrast and the exact gradient", height: 240, x: { label: "epoch", lim: null }, y: { label: "cosine", lim: [0, 1.05] } });
  const moves = new Chart({ label: "How far each layer moves in the nudged phase", height: 240, x: { label: "sweep of the nudged phase", lim: null }, y: { label: "mean move", lim: null, log: true } });
  stage.append(told.list, draw.box, answer.box, layered.box, card("Error", { width: 4 }, error.host).box, card("Angle to the exact gradient", { width: 4 }, cosines.host).box, card("The nudge travels back", { width: 4 }, moves.host).box);
  wipe(false);

  function painting() {
    return {
      begin() {},
      move(x, y) {
        for (let dy = -1; dy <= 2; dy++) for (let dx = -1; dx <= 2; dx++) {
          const at = (y + dy) * FINE + x + dx;
          if (x + dx >= 0 && x + dx < FINE && y + dy >= 0 && y + dy < FINE) ink[at] = Math.min(1, ink[at] + ((dx === -1 || dx === 2 || dy === -1 || dy === 2) ? 0.25 : 0.7));
        }
        drawing.shades(ink);
        give();
      },
      end: give,
    };
  }

  let given = 0;
  function give() {
    const now = performance.now();
    if (now - given < 60) { clearTimeout(give.later); give.later = setTimeout(give, 60); return; }
    given = now;
    const whole = fitted(), pixels = new Array(64).fill(0);
    for (let y = 0; y < FINE; y++) for (let x = 0; x < FINE; x++) pixels[Math.floor(y / 4) * 8 + Math.floor(x / 4)] += whole[y * FINE + x] / 16;
    ctx.act("draw", { pixels: pixels.map((value) => Math.min(1, value)) });
  }

  // The drawing as the digits that are learned from: in the middle, and as large as the frame allows.
  function fitted() {
    const inked = Array.from(ink.keys()).filter((at) => ink[at] > 0.2);
    if (!inked.length) return ink;
    const [left, right] = bounds(inked.map((at) => at % FINE)), [top, bottom] = bounds(inked.map((at) => Math.floor(at / FINE)));
    const scale = Math.max(0.3, (Math.max(right - left, bottom - top) + 1) / FINE); // a dot stays small
    const from = (low, high, at) => Math.round((low + high) / 2 + scale * (at - (FINE - 1) / 2));
    return Float32Array.from({ length: FINE * FINE }, (_, at) => {
      const x = from(left, right, at % FINE), y = from(top, bottom, Math.floor(at / FINE));
      return x >= 0 && x < FINE && y >= 0 && y < FINE ? ink[y * FINE + x] : 0;
    });
  }

  const bounds = (values) => [Math.min(...values), Math.max(...values)];

  function wipe(back = true) {
    ink = new Float32Array(FINE * FINE);
    drawing.shades(ink);
    if (back) ctx.turn("which", state.which);
  }

  function names(message) { return Object.keys(message).filter((name) => name.startsWith("free_")).map((name) => name.slice(5)); }

  function rebuild(found, message) {
    layers = found;
    strips = {};
    strip.replaceChildren(...layers.map((name) => {
      const size = message[`free_${name}`].shape.at(-1);
      const make = (what) => new Pixels({ columns: size > 16 ? 16 : size, rows: size > 16 ? size / 16 : 1, label: `${name}, ${what}` });
      strips[name] = { free: make("free"), moved: make("moved by the nudge") };
      return el("div", { class: "strip" }, el("small", { text: name }), el("div", { class: "pair" }, strips[name].free.canvas, strips[name].moved.canvas));
    }));
  }

  function show(message) {
    phases = message;
    const found = names(message);
    if (found.join() !== layers.join()) rebuild(found, message);
    told.set("answer", String(message.answer), number(message.output[message.answer], 2));
    told.set("truth", message.drawn ? "drawn" : String(message.label));
    if (!message.drawn) { const fine = Float32Array.from({ length: FINE * FINE }, (_, at) => message.input[Math.floor(Math.floor(at / FINE) / 4) * 8 + Math.floor((at % FINE) / 4)]); drawing.shades(fine); if (ink.some((value) => value > 0)) ink = new Float32Array(FINE * FINE); }
    if (message.drawn) ctx.say(`The network answers ${message.answer}`);
    outline();
    if (timer === null) timer = setInterval(animate, 90);
  }

  // How far the layers have moved after each sweep of the nudged phase: those nearer to the output first.
  function outline() {
    moves.clear();
    layers.forEach((name, index) => {
      const states = phases[`nudged_${name}`];
      if (!states) return;
      const [sweeps, size] = states.shape.length === 3 ? [states.shape[0], states.shape[2]] : states.shape;
      const y = Array.from({ length: sweeps }, (_, sweep) => {
        let sum = 0;
        for (let unit = 0; unit < size; unit++) sum += Math.abs(states[sweep * size + unit] - states[unit]);
        return sum / size || NaN;
      });
      moves.set(name, { kind: "line", x: y.map((_, sweep) => sweep), y, colour: `var(--c${index})`, label: name, width: 2 });
    });
  }

  function animate() {
    if (!phases) return;
    const first = phases[`free_${layers[0]}`];
    const frames = first.shape[0], nudged = phases[`nudged_${layers[0]}`], extra = nudged ? nudged.shape[0] : 0;
    const at = tick++ % (frames + extra + 8);
    const free = Math.min(at, frames - 1), push = Math.max(0, Math.min(at - frames, extra - 1));
    layered.note(at < frames ? `free phase, sweep ${free}` : extra ? `nudged phase, sweep ${push}` : "at rest");
    for (const name of layers) {
      const states = phases[`free_${name}`], size = states.shape.at(-1), moved = phases[`nudged_${name}`];
      strips[name].free.shades(states.subarray(free * size, (free + 1) * size));
      const difference = new Float32Array(size);
      let reach = 1e-6;
      if (moved) for (let unit = 0; unit < size; unit++) {
        difference[unit] = moved[push * size + unit] - moved[unit];
        reach = Math.max(reach, Math.abs(moved[(extra - 1) * size + unit] - moved[unit]));
      }
      strips[name].moved.signed(at < frames ? new Float32Array(size) : difference, reach);
    }
    const output = phases.free_output, from = free * 10;
    const best = output.subarray(from, from + 10).indexOf(Math.max(...output.subarray(from, from + 10)));
    cells.forEach(({ bar, value }, digit) => {
      const part = output[from + digit];
      bar.style.width = `${Math.max(0, Math.min(100, 100 * part))}%`;
      bar.classList.toggle("best", digit === best);
      value.textContent = number(part, 2);
    });
  }

  function record(message) {
    rows.push(message);
    told.set("error", `${number(100 * message.error, 1)} %`);
    told.set("epoch", number(message.epoch, 2));
    told.set("cosine", number(Math.min(...message.cosines)), "least");
    const x = rows.map((row) => row.epoch);
    error.set("error", { kind: "line", x, y: rows.map((row) => row.error), colour: "var(--c0)", width: 2.2 });
    message.cosines.forEach((_, index) => cosines.set(`c${index}`, { kind: "line", x, y: rows.map((row) => row.cosines[index]), colour: `var(--c${index})`, label: `coupling ${index + 1}`, width: 2 }));
    error.limits(null, [0, Math.max(0.1, ...rows.slice(-12).map((row) => 1.3 * row.error))]);
  }

  return {
    begin() { rows = []; error.clear(); cosines.clear(); },
    message(message) {
      if (message.kind === "phases") show(message);
      if (message.kind === "record") record(message);
      if (message.kind === "trained") ctx.say(`Training has ended; test error ${number(100 * rows.at(-1).error, 1)} percent`);
    },
    redraw() { for (const chart of [error, cosines, moves]) chart.queue(); drawing.shades(ink); },
    close() { clearInterval(timer); },
  };
}
