// The phase diagram of a Hopfield network, from the lines that theory gives.

import { Chart } from "./chart.js";

const PHASES = [["retrieval", "--phase3"], ["metastable retrieval", "--phase2"], ["spin glass", "--phase1"], ["paramagnet", "--phase0"]];

export class Diagram {
  constructor({ height = 430 } = {}) {
    this.chart = new Chart({
      label: "Phase diagram: temperature against load", height,
      x: { label: "load α = K/N", lim: [0, 0.2] }, y: { label: "temperature T", lim: [0, 1.5] },
    });
  }

  // What the lab sent as "lines"; the widest load is where retrieval ends, and somewhat beyond.
  lines(message, least = 0) {
    const { temperatures: heat, spinodal, first, breaking, loads, glass } = message;
    const widest = Math.max(1.35 * Math.max(...spinodal), 1.08 * least);
    const high = 1.08 * Math.max(1, ...[...glass].filter((_, index) => loads[index] <= widest));
    this.chart.limits([0, widest], [0, high]);
    const back = (values) => [...values].reverse();
    const area = (name, x, y, index) => this.chart.set(name, { kind: "area", x, y, colour: `var(${PHASES[index][1]})`, label: PHASES[index][0] });
    area("phase-3", [0, widest, widest, 0], [0, 0, high, high], 3);
    area("phase-2", [...loads, loads.at(-1), 0], [...glass, 0, 0], 2);
    area("phase-1", [...first, ...back(spinodal)], [...heat, ...back(heat)], 1);
    area("phase-0", [0, ...first], [0, ...heat], 0);
    this.line("line-end", spinodal, heat, "--c0", "retrieval ends");
    this.line("line-first", first, heat, "--c0", "of lowest free energy", "6 4");
    this.line("line-breaking", breaking, heat, "--c3", "replica symmetry breaks", "2 3");
    this.line("line-glass", loads, glass, "--c1", "spins freeze");
  }

  line(name, x, y, colour, label, dash = null) {
    this.chart.set(name, { kind: "line", x: [...x], y: [...y], colour: `var(${colour})`, label, dash });
  }

  here(load, temperature) {
    this.chart.set("here", { kind: "mark", x: [load], y: [temperature], colour: "var(--c1)", over: true });
  }
}
