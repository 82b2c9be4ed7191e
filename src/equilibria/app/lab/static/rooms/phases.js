// Phase diagram: theory of large networks, and small ones simulated in a rectangle.

import { Chart } from "../chart.js";
import { Diagram } from "../diagram.js";
import { card, el, mix, number, numbers, rgb } from "../dom.js";

const USES = { hopfield: ["sleep"], examples: ["quality", "examples", "supervised", "sleep"], modes: ["aspect"] };

export function build(ctx) {
  const { stage, state } = ctx;
  const told = numbers(["where", "Point", true], ["theory", "Theory: overlap"], ["overlap", "Theory: replicas"], ["done", "Simulated"], ["distance", "Mean distance"]);
  const diagram = new Diagram({ height: 470 });
  const chart = diagram.chart;
  const open = el("a", { href: "#remember", text: "Watch a network at this point", hidden: true });
  const clear = el("button", { type: "button", text: "Clear", onclick: () => ctx.set({ area: "", here: "" }) });
  const where = card("Theory and simulation", { width: 8, note: "click a point, or drag a rectangle" }, chart.host,
    el("p", { text: "Circles are networks of 400 neurons, begun in a pattern: filled as far as their order parameter is from 0 to 1. Hover for numbers." }),
    el("div", { class: "row" }, clear, open));
  const against = new Chart({ label: "Simulated against predicted order parameter", height: 430, x: { label: "theory", lim: [-0.03, 1.03] }, y: { label: "simulation, N = 400", lim: [-0.1, 1.1] }, legend: false });
  const beside = card("Against theory", { width: 4, note: "bars: finite size" }, against.host, el("p", { text: "Orange: theory has no such state, and 0 in equilibrium; small networks keep a part of the pattern for long. These do not count in the mean distance." }));
  stage.append(told.list, where.box, beside.box);
  let cells = [];

  const precise = (values) => values.map((value) => Number(value.toPrecision(4))).join(",");
  chart.pick({
    choose: (x, y) => ctx.set({ here: precise([x, y]) }),
    select: (x, y) => ctx.set({ area: precise([...x, ...y]) }),
    now: () => (state.here ? state.here.split(",").map(Number) : [chart.shown.x[1] / 2, chart.shown.y[1] / 2]),
  });

  function lines(message) {
    chart.clear("line");
    chart.clear("phase");
    if (message.model === "hopfield") { chart.x.label = "load α = K/N"; chart.y.label = "temperature T"; diagram.lines(message, areaEnd()); }
    if (message.model === "examples") examples(message);
    if (message.model === "modes") modes(message);
    chart.label = `Phase diagram of ${message.model}: ${chart.y.label} against ${chart.x.label}`;
    draw();
  }

  const areaEnd = () => Math.max(0, ...(state.area ? state.area.split(",").slice(0, 2).map(Number) : [0]));

  function examples({ temperatures, spinodal }) {
    const widest = Math.max(0.02, 1.5 * Math.max(...spinodal), 1.05 * areaEnd());
    chart.x.label = "load α = K/N, of archetypes never seen";
    chart.y.label = "temperature T";
    chart.limits([0, widest], [0, 1.2]);
    chart.set("phase-3", { kind: "area", x: [0, widest, widest, 0], y: [0, 0, 1.2, 1.2], colour: "var(--phase1)", label: "archetypes are not found" });
    chart.set("phase-0", { kind: "area", x: [0, ...spinodal], y: [0, ...temperatures], colour: "var(--phase3)", label: "archetypes are found" });
    diagram.line("line-end", spinodal, temperatures, "--c0", "retrieval ends");
  }

  function modes({ noise, critical, strength, breaking }) {
    chart.x.label = "noise σ of the weights";
    chart.y.label = "strength w of the mode";
    chart.limits([0, 3], [0, 3]);
    chart.set("phase-3", { kind: "area", x: [0, 1, 1, 0], y: [0, 0, 1, 1], colour: "var(--phase0)", label: "paramagnet" });
    chart.set("phase-2", { kind: "area", x: [1, 3, 3, ...[...noise].filter((s) => s >= 1).reverse()], y: [0, 0, 3, ...[...critical].filter((_, i) => noise[i] >= 1).reverse()], colour: "var(--phase1)", label: "spin glass" });
    chart.set("phase-0", { kind: "area", x: [0, ...noise, 3, 0], y: [1, ...critical, 3, 3], colour: "var(--phase3)", label: "ferromagnet" });
    diagram.line("line-end", noise, critical, "--c0", "the mode comes out");
    diagram.line("line-glass", [1, 1], [0, 1], "--c1", "spins freeze");
    diagram.line("line-breaking", breaking, strength, "--c3", "replica symmetry breaks", "2 3");
  }

  function draw() {
    const paper = rgb("--paper"), ink = rgb("--c2");
    const fills = cells.map((cell) => `rgb(${mix(paper, ink, Math.max(0, Math.min(1, cell.value))).map(Math.round).join(",")})`);
    const titles = cells.map((cell) => `${number(cell.x)}, ${number(cell.y)}: ${number(cell.value)} ± ${number(cell.error)}, theory ${number(cell.theory)}`);
    chart.set("selection", state.area ? (([x0, x1, y0, y1]) => ({ kind: "rect", x: [x0, x1], y: [y0, y1], colour: "var(--c6)" }))(state.area.split(",").map(Number)) : null);
    chart.set("cells", cells.length ? { kind: "points", x: cells.map((cell) => cell.x), y: cells.map((cell) => cell.y), colour: "var(--c6)", fills, titles, size: 7, label: "simulated", fill: "var(--c2)" } : null);
    against.set("diagonal", { kind: "line", x: [0, 1], y: [0, 1], colour: "var(--c1)", dash: "6 4" });
    for (const [name, there, colour] of [["with", true, "var(--c0)"], ["without", false, "var(--c1)"]]) {
      const chosen = cells.filter((cell) => cell.theory > 0 === there);
      against.set(name, { kind: "points", x: chosen.map((cell) => cell.theory), y: chosen.map((cell) => cell.value), error: chosen.map((cell) => cell.error), colour });
    }
  }

  function used() {
    for (const dial of ctx.plan.dials) {
      const box = document.getElementById(`dial-${dial.name}`);
      const frame = box?.closest(".dial");
      const special = Object.values(USES).some((names) => names.includes(dial.name));
      if (frame) frame.hidden = special && !USES[state.model].includes(dial.name);
    }
  }
  used();

  return {
    begin() {
      cells = [];
      used();
      told.set("done", "0");
      told.set("distance", "–");
      if (!state.here) { chart.set("here", null); told.set("where", "–", "click in the diagram"); told.set("theory", "–"); told.set("overlap", "–"); }
      open.hidden = !(state.here && state.model === "hopfield");
      draw();
    },
    dial(name, value) { if (name === "model") { state.model = value; state.area = ""; state.here = ""; used(); } },
    message(message) {
      if (message.kind === "lines") lines(message);
      if (message.kind === "point") {
        diagram.here(message.x, message.y);
        told.set("where", `${number(message.x)}, ${number(message.y)}`);
        told.set("theory", number(message.theory));
        told.set("overlap", number(message.q));
        open.href = `#remember?patterns=random&load=${Math.max(1 / 784, message.x)}&temperature=${Math.min(1.5, message.y)}&sleep=${state.sleep}`;
      }
      if (message.kind === "cell") {
        cells.push(message);
        told.set("done", `${message.done}`, `of ${message.of}`);
        const ordered = cells.filter((cell) => cell.theory > 0);
        told.set("distance", number(ordered.reduce((sum, cell) => sum + Math.abs(cell.value - cell.theory), 0) / ordered.length), `of ${ordered.length}`);
        if (message.done === message.of) ctx.say(`${message.of} points simulated.`);
        draw();
      }
    },
    redraw() { chart.queue(); against.queue(); draw(); },
  };
}
