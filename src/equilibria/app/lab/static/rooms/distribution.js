// Learn a distribution: the modes of a machine come out of the noise.

import { Chart } from "../chart.js";
import { card, el, number, numbers } from "../dom.js";
import { Pixels } from "../pixels.js";

const SHOWN = 10, FOLLOWED = 4;

class Tiles {
  constructor(label) {
    this.label = label;
    this.root = el("div", { class: "tiles", role: "img", "aria-label": label });
    this.made = "";
  }

  // With a reach numbers about zero, without one spins.
  draw(pictures, height, width, reach = null) {
    const count = pictures.shape[0], size = height * width;
    if (this.made !== `${count} ${height} ${width}`) {
      this.made = `${count} ${height} ${width}`;
      this.each = Array.from({ length: count }, () => new Pixels({ columns: width, rows: height, label: "" }));
      for (const tile of this.each) tile.canvas.setAttribute("aria-hidden", "true");
      this.root.replaceChildren(...this.each.map((tile) => tile.canvas));
    }
    this.each.forEach((tile, index) => {
      const one = pictures.subarray(index * size, (index + 1) * size);
      if (reach === null) tile.spins(one); else tile.signed(one, reach);
    });
  }
}

export function build(ctx) {
  const { stage, state } = ctx;
  const told = numbers(["outliers", "Modes beyond noise"], ["likelihood", "Log-likelihood"], ["mixed", "Chains", true], ["step", "Update"], ["machine", "Machine", true]);
  const spectrum = new Chart({ label: "Singular values against time", height: 380, x: { label: "time = learning rate × updates", lim: null, log: true }, y: { label: "singular value w", lim: null } });
  const likelihood = new Chart({ label: "Log-likelihood against updates", height: 250, x: { label: "update", lim: null, pad: 0.04 }, y: { label: "nats per example", lim: null }, legend: false });
  const data = new Tiles("Data"), samples = new Tiles("Samples of the machine"), filters = new Tiles("Filters: the strongest hidden neurons");
  const choose = el("input", { type: "file", accept: ".csv,.tsv,.txt,.gz,.npy,.npz,.h5,.h5ad,.parquet", class: "unseen", id: "table-file", onchange: () => dropped([...choose.files]).catch((error) => ctx.toast(error.message)) });
  const drop = el("label", { class: "drop", for: "table-file", text: "Drop a table here (.csv, .tsv, .npy, .npz, .h5, .h5ad, .parquet; rows are examples), or choose a file" });
  const verdict = el("p", { id: "verdict" });
  const modes = card("Modes come out of the noise", { width: 8, note: "lines: theory; points: the machine" }, spectrum.host);
  stage.append(told.list, modes.box, card("Data", { width: 4, note: "" }, data.root, choose, drop).box, card("Samples", { width: 4 }, samples.root).box, card("Filters", { width: 4 }, filters.root).box, card("Likelihood", { width: 4, note: "from below, from above" }, likelihood.host, verdict).box);
  let rows = [], curve = [], scores = [], shape = [10, 10], last = {};

  async function dropped(files) {
    const found = await ctx.upload("table", files[0]);
    ctx.toast(`${found.rows} rows, ${found.columns} columns.`);
    ctx.set({ data: "table", table: found.table });
  }

  function drawModes() {
    const time = rows.map((row) => row.time);
    const count = Math.min(SHOWN, rows.at(-1).values.length);
    for (let mode = count - 1; mode >= 0; mode--) {
      const followed = mode < FOLLOWED;
      spectrum.set(`mode-${mode}`, { kind: "points", x: time, y: rows.map((row) => row.values[mode]), colour: followed ? `var(--c${mode})` : "var(--soft)", size: followed ? 2.6 : 1.5, hollow: false, label: mode === 0 ? "the machine" : null });
    }
    spectrum.set("edge", { kind: "line", x: time, y: rows.map((row) => row.edge), colour: "var(--c6)", dash: "2 3", label: "edge of the noise (Marchenko-Pastur)" });
    spectrum.set("one", { kind: "hline", y: [1], colour: "var(--soft)", dash: "7 5", width: 1, label: "threshold 1" });
    drawCurve();
  }

  function drawCurve() {
    for (let mode = 0; mode < FOLLOWED; mode++) {
      for (const [law, dash] of [["normal", null], ["two-valued", "5 4"]]) {
        const points = curve.filter((point) => point.law === law);
        spectrum.set(`theory-${law}-${mode}`, points.length ? { kind: "line", x: points.map((point) => point.time), y: points.map((point) => point.strengths[mode]), colour: `var(--c${mode})`, width: 2, dash, label: mode === 0 ? `theory, ${law} components` : null } : null);
      }
    }
  }

  function drawFilters(message) {
    filters.draw(message.filters, ...shape, message.filters.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9));
  }

  function drawScores() {
    likelihood.set("value", { kind: "points", x: scores.map((score) => score.step), y: scores.map((score) => (score.low + score.high) / 2), error: scores.map((score) => (score.high - score.low) / 2), colour: "var(--c2)" });
    likelihood.set("line", { kind: "line", x: scores.map((score) => score.step), y: scores.map((score) => score.value), colour: "var(--c2)", width: 1.4 });
  }

  return {
    begin() { rows = []; curve = []; scores = []; verdict.textContent = ""; for (const chart of [spectrum, likelihood]) chart.clear(); },
    message(message) {
      if (message.kind === "data") {
        shape = [message.height, message.width];
        data.draw(message.pictures, ...shape);
        told.set("machine", `${message.visible} × ${message.hidden}`, `${message.examples} examples`);
        spectrum.limits([message.rate, Math.max(2, message.rate * state.steps)], null);
        last.data = message;
      }
      if (message.kind === "record") {
        rows.push(message);
        drawModes();
        drawFilters(message);
        told.set("outliers", String(message.outliers), `edge ${number(message.edge, 2)}`);
        told.set("step", String(message.step));
        last.record = message;
      }
      if (message.kind === "samples") { samples.draw(message.pictures, ...shape); last.samples = message; }
      if (message.kind === "curve") { curve.push(message); drawCurve(); }
      if (message.kind === "score") {
        scores.push(message);
        drawScores();
        told.set("likelihood", number(message.value, 2), `from ${number(message.low, 2)} to ${number(message.high, 2)}`);
        told.set("mixed", message.mixed ? "mixed" : "not mixed", `R-hat ${number(message.r_hat)}`);
        verdict.textContent = `At update ${message.step}, chains begun at data and at random: ${message.verdict}.`;
      }
    },
    dropped,
    redraw() {
      for (const chart of [spectrum, likelihood]) chart.queue();
      if (last.data) data.draw(last.data.pictures, ...shape);
      if (last.samples) samples.draw(last.samples.pictures, ...shape);
      if (last.record) drawFilters(last.record);
    },
  };
}
