// Remember: a network falls from a cue into what it has stored.

import { Chart } from "../chart.js";
import { Diagram } from "../diagram.js";
import { card, el, number, numbers, within } from "../dom.js";
import { Pixels, toBits } from "../pixels.js";

const SIDE = 28, KEPT = 240, OTHERS = 12; // neurons along a side; sweeps and overlaps that are drawn

export function build(ctx) {
  const { stage, state } = ctx;
  const told = numbers(
    ["overlap", "Overlap now"], ["mean", "Its average"], ["theory", "Theory, large network"], ["phase", "Phase", true], ["sweep", "Sweep"],
  );
  let goal = null, neurons = null, drawing = null, lines = null, prediction = {}, paused = false, frames = [], lastLines = null, stored = null;

  const picture = new Pixels({ columns: SIDE, label: "Neurons: what the network holds now", paint: painting() });
  const network = card("The network", { width: 5 }, picture.canvas, el("p", { text: "Paint to draw a cue; with the right button, or shift, to erase. Orange disagrees with the pattern." }));
  const thumbs = el("div", { class: "thumbs", role: "group", "aria-label": "Stored patterns" });
  const clear = el("button", { type: "button", text: "Empty cue", onclick: () => ctx.set({ cue: toBits(new Int8Array(SIDE * SIDE).fill(-1)) }) });
  const keep = el("button", { type: "button", text: "Store what is drawn", onclick: store });
  const damaged = el("button", { type: "button", text: "Damaged pattern", onclick: () => ctx.set({ cue: "" }) });
  const choose = el("input", { type: "file", accept: "image/*", multiple: true, class: "unseen", id: "pictures", onchange: () => dropped([...choose.files]).catch((error) => ctx.toast(error.message)) });
  const drop = el("label", { class: "drop", for: "pictures", text: "Drop pictures here, or choose files, to store them" });
  network.box.append(el("div", { class: "row" }, el("button", { type: "button", class: "main", id: "again", text: "From the cue", onclick: () => ctx.again() }), clear, keep, damaged), thumbs, choose, drop);

  const diagram = new Diagram();
  diagram.chart.pick({ choose: (load, temperature) => ctx.set({ load: Math.max(1 / 784, Math.min(1, load)), temperature }), now: () => [prediction.load || 0, state.temperature] });
  const where = card("Where we are", { width: 7, note: "click a point to go there" }, diagram.chart.host, el("p", { id: "caveat" }));

  const overlaps = new Chart({ label: "Overlaps against sweeps", height: 240, x: { label: "sweep", lim: null }, y: { label: "overlap m", lim: [-0.25, 1.05] } });
  const energy = new Chart({ label: "Energy against sweeps", height: 240, x: { label: "sweep", lim: null }, y: { label: "energy per neuron", lim: null }, legend: false });
  stage.append(told.list, network.box, where.box, card("Mattis overlaps", { width: 6 }, overlaps.host).box, card("Energy", { width: 6 }, energy.host).box);

  function painting() {
    let ink = 1;
    return {
      begin(event) {
        ctx.act("pause");
        ink = event.button === 2 || event.shiftKey ? -1 : 1;
        drawing = Int8Array.from(neurons || new Int8Array(SIDE * SIDE).fill(-1), (value) => value || -1);
      },
      move(x, y) {
        for (const [dx, dy] of [[0, 0], [1, 0], [0, 1], [1, 1]]) if (x + dx < SIDE && y + dy < SIDE) drawing[(y + dy) * SIDE + x + dx] = ink;
        picture.spins(drawing);
      },
      end() { const cue = toBits(drawing); drawing = null; ctx.set({ cue }); },
    };
  }

  const own = () => state.mine.split(".").filter(Boolean);

  function store() {
    if (own().length >= 8) { ctx.toast("Eight pictures of your own is the most."); return; }
    ctx.set({ mine: [...own(), toBits(neurons)].join("."), patterns: "mine", target: own().length });
  }

  async function dropped(files) {
    const found = [...own()];
    for (const file of files.slice(0, 8 - found.length)) found.push((await ctx.upload("picture", file)).bits);
    ctx.set({ mine: found.join("."), patterns: "mine", target: Math.max(0, found.length - 1), cue: "" });
  }

  function showPatterns(message) {
    const count = message.patterns.shape[0];
    thumbs.replaceChildren(...Array.from({ length: count }, (_, index) => {
      const small = new Pixels({ columns: SIDE, label: "" });
      small.canvas.setAttribute("aria-hidden", "true");
      small.spins(message.patterns.subarray(index * SIDE * SIDE, (index + 1) * SIDE * SIDE));
      return el("button", { type: "button", "aria-pressed": String(index === message.target), "aria-label": `Pattern ${index + 1}`, onclick: () => ctx.set({ target: index, cue: "" }) }, small.canvas);
    }));
    network.note(`${message.count} stored · ${SIDE * SIDE} neurons`);
  }

  function drawFrame(message) {
    neurons = message.neurons;
    if (!drawing) picture.spins(neurons, goal);
    if (message.sweep === 0) frames = [];
    frames.push(message);
    if (frames.length > KEPT) frames = frames.slice(-KEPT);
    const x = frames.map((frame) => frame.sweep);
    const count = Math.min(message.overlaps.length, OTHERS);
    overlaps.clear("other");
    for (let index = 0; index < count; index++) {
      if (index !== goal.index) overlaps.set(`other-${index}`, { kind: "line", x, y: frames.map((frame) => frame.overlaps[index]), colour: "var(--soft)", width: 0.8, opacity: 0.55, label: index === (goal.index === 0 ? 1 : 0) ? "other patterns" : null });
    }
    overlaps.set("target", { kind: "line", x, y: frames.map((frame) => frame.overlap), colour: "var(--c0)", width: 2.6, label: "pattern shown" });
    energy.set("energy", { kind: "line", x, y: frames.map((frame) => frame.energy), colour: "var(--c2)", width: 2.2 });
    told.set("overlap", number(message.overlap));
    told.set("mean", number(message.mean), `of ${message.averaged}`);
    told.set("sweep", String(message.sweep), message.rest ? "at rest" : message.steered ? "dial turned on the way" : "");
    picture.label(`Neurons at sweep ${message.sweep}: overlap ${number(message.overlap)} with the pattern`);
    if (message.rest || message.sweep % 50 === 0) ctx.say(`Sweep ${message.sweep}: overlap ${number(message.overlap, 2)}`);
  }

  function drawTheory(message) {
    prediction = message;
    told.set("theory", message.m === null ? "none" : number(message.m), message.m === null ? "no retrieval here" : within(message.error));
    told.set("phase", message.phase);
    diagram.here(message.load, message.temperature);
    ctx.tell("load", `${number(message.load, 3)}  (K = ${Math.round(message.load * 784)})`);
    overlaps.set("theory", message.m === null ? null : { kind: "hline", y: [message.m], colour: "var(--c1)", dash: "6 4", label: "theory" });
    overlaps.set("band", message.m === null ? null : { kind: "band", y: [message.m - message.error, message.m + message.error], colour: "var(--c1)", opacity: 0.25 });
    if (lastLines) diagram.lines(lastLines, message.load);
    document.getElementById("caveat").textContent = (state.patterns === "random"
      ? "± is the scatter of one state of 784 independent neurons."
      : "Theory is for random patterns; pictures resemble one another, and need more sleep.")
      + (message.m === null ? " Where no pattern is retrieved, what is left of the cue is not predicted." : "");
  }

  function redraw() {
    for (const chart of [overlaps, energy, diagram.chart]) chart.queue();
    if (neurons) picture.spins(neurons, goal);
    if (stored) showPatterns(stored);
  }

  return {
    begin() { paused = false; },
    message(message) {
      if (message.kind === "network") { goal = message.goal; goal.index = message.target; overlaps.clear(); energy.clear(); stored = message; showPatterns(stored); if (prediction.phase) drawTheory(prediction); }
      if (message.kind === "frame") drawFrame(message);
      if (message.kind === "theory") drawTheory(message);
      if (message.kind === "lines") { lastLines = message; diagram.lines(message, prediction.load); }
    },
    pause() { paused = !paused; ctx.act(paused ? "pause" : "go on"); },
    step() { paused = true; ctx.act("step"); },
    dropped, redraw,
  };
}
