// Binary synapses: planted fields found again, the bound, and the threshold of theory.

import { Chart } from "../chart.js";
import { card, el, number, numbers } from "../dom.js";
import { Pixels } from "../pixels.js";

export function build(ctx) {
  const { stage, state } = ctx;
  const told = numbers(["overlap", "Overlap reached"], ["bound", "Bound per example"], ["step", "Step"], ["examples", "Examples M"], ["threshold", "Threshold of theory"]);
  const overlap = new Chart({ label: "Overlap against steps", height: 250, x: { label: "step", lim: null }, y: { label: "overlap Q", lim: [0, 1.05] }, legend: false });
  const bound = new Chart({ label: "Bound against steps", height: 250, x: { label: "step", lim: null }, y: { label: "bound per example", lim: null }, legend: false });
  const density = new Chart({ label: "Overlap reached against data density", height: 300, x: { label: "data density α = M/N", lim: [0, 6] }, y: { label: "overlap reached", lim: [0, 1.05] } });
  const grids = el("div", { class: "grids" });
  const fields = card("Planted and learned weights", { width: 5, note: "" }, grids, el("p", { text: "Above what was planted, below the mean of each learned weight: blue −1, orange +1, pale where it is not known. Order and sign cannot be learned, and are matched." }));
  const reached = card("Where learning begins", { width: 7, note: "click a density" }, density.host, el("div", { class: "row" },
    el("button", { type: "button", class: "main", id: "all", text: "Run all densities", onclick: () => ctx.set({ sweep: "all" }) }),
    el("button", { type: "button", text: "Forget the points", onclick: () => { ends = []; points(); } })));
  stage.append(told.list, fields.box, reached.box, card("Overlap grows", { width: 6 }, overlap.host).box, card("The bound grows", { width: 6 }, bound.host).box);
  let rows = [], ends = [], kind = "", planted = null, pairs = [];
  density.pick({ choose: (x) => ctx.set({ density: Math.max(0.1, Math.round(10 * x) / 10), sweep: "one" }), now: () => [state.density, 0.5] });

  function show(message) {
    planted = message.fields;
    const [count, size] = planted.shape;
    pairs = Array.from({ length: count }, (_, index) => {
      const make = (what) => new Pixels({ columns: size / 4, rows: 4, label: `Field ${index + 1}, ${what}` });
      const pair = { above: make("planted"), below: make("learned") };
      return pair;
    });
    paintPlanted();
    grids.replaceChildren(...pairs.flatMap((pair, index) => [el("small", { text: `field ${index + 1}` }), pair.above.canvas, pair.below.canvas]));
    rows = [];
    told.set("examples", String(message.examples));
    told.set("threshold", number(threshold.learner, 2), `α = ${number(message.density, 2)} here`);
    density.set("here", { kind: "vline", x: [message.density], colour: "var(--c0)", width: 1 });
  }

  let threshold = { learner: NaN, informed: NaN };

  function step(message) {
    rows.push(message);
    const x = rows.map((row) => row.step);
    overlap.set("overlap", { kind: "line", x, y: rows.map((row) => row.overlap), colour: "var(--c0)", width: 2.4 });
    bound.set("bound", { kind: "line", x, y: rows.map((row) => row.bound), colour: "var(--c2)", width: 2.4 });
    told.set("overlap", number(message.overlap));
    told.set("bound", number(message.bound));
    told.set("step", String(message.step));
    paintLearned(message);
  }

  function paintPlanted() {
    const size = planted.shape[1];
    pairs.forEach((pair, index) => pair.above.signed(planted.subarray(index * size, (index + 1) * size), 1));
  }

  function paintLearned(message) {
    const [count, size] = planted.shape;
    for (let index = 0; index < count; index++) {
      const at = message.order[index], learned = message.means.subarray(at * size, (at + 1) * size);
      let along = 0;
      for (let place = 0; place < size; place++) along += learned[place] * planted[index * size + place];
      pairs[index].below.signed(along < 0 ? learned.map((value) => -value) : learned, 1);
    }
  }

  function points() {
    density.set("ends", { kind: "points", x: ends.map((end) => end.density), y: ends.map((end) => end.overlap), colour: "var(--c0)", label: "learned, N = 100", titles: ends.map((end) => `density ${number(end.density, 2)}: overlap ${number(end.overlap)}`), size: 5 });
  }

  return {
    begin() {
      const now = [state.fields, state.correlation, state.seed, state.steps].join();
      if (now !== kind) { ends = []; kind = now; }
      overlap.clear();
      bound.clear();
    },
    message(message) {
      if (message.kind === "threshold") {
        threshold = message;
        density.set("learner", { kind: "vline", x: [message.learner], colour: "var(--c1)", dash: "6 4", label: "theory: learning begins" });
        density.set("informed", message.informed === message.learner ? null : { kind: "vline", x: [message.informed], colour: "var(--c3)", dash: "2 3", label: "for one who knows q" });
        points();
      }
      if (message.kind === "planted") show(message);
      if (message.kind === "step") step(message);
      if (message.kind === "end") {
        ends = [...ends.filter((end) => end.density !== message.density), message].sort((a, b) => a.density - b.density);
        points();
        ctx.say(`Density ${number(message.density, 1)}: overlap ${number(message.overlap, 2)}`);
      }
    },
    redraw() {
      for (const chart of [overlap, bound, density]) chart.queue();
      if (planted) paintPlanted();
      if (rows.length) paintLearned(rows.at(-1));
    },
  };
}
