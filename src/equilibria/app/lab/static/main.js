// The page: which room, its dials, the connection. State of a room stands in the address, after #.

import { Dials } from "./dials.js";
import { el } from "./dom.js";
import { Connection } from "./net.js";
import { asPng, asSvg, download } from "./picture.js";

const byId = (id) => document.getElementById(id);
// A link without a token, such as one from a report, uses that of the last page here.
const token = new URLSearchParams(location.search).get("token") || stored() || "";
let plans = {};
let room = null; // { plan, state, dials, view, visit }
let visits = 0;

function stored(value) {
  try {
    if (value) localStorage.setItem("token", value);
    return localStorage.getItem("token");
  } catch { return null; } // a browser that keeps nothing
}

// ---- the address ----

function fromAddress() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  return { name: name in plans ? name : Object.keys(plans)[0], given: Object.fromEntries(new URLSearchParams(query)) };
}

function address() {
  const changed = room.plan.dials.filter((dial) => String(room.state[dial.name]) !== String(dial.default));
  const query = new URLSearchParams(changed.map((dial) => [dial.name, room.state[dial.name]])).toString();
  return `#${room.plan.name}${query ? `?${query}` : ""}`;
}

function keepAddress() { history.replaceState(null, "", `${location.pathname}${location.search}${address()}`); }

function typed(plan, given) {
  const state = {};
  for (const dial of plan.dials) {
    const value = given[dial.name];
    if (value === undefined) state[dial.name] = dial.default;
    else if (dial.kind === "number" || dial.kind === "whole") state[dial.name] = Number(value);
    else if (dial.kind === "choice") state[dial.name] = (dial.choices.find(([each]) => String(each) === String(value)) || [dial.default])[0];
    else state[dial.name] = value;
  }
  return state;
}

// ---- rooms ----

async function open() {
  const { name, given } = fromAddress();
  const plan = plans[name];
  const state = typed(plan, given);
  const module = await import(`./rooms/${name}.js`);
  room?.view?.close?.();
  document.title = `${plan.title} · Equilibria lab`;
  byId("title").textContent = plan.title;
  byId("about").textContent = plan.about;
  for (const link of byId("rooms").querySelectorAll("a")) {
    if (link.getAttribute("href") === `#${name}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  byId("rooms").querySelector("[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  room = { plan, state };
  room.dials = new Dials(byId("dials"), plan, state, turned);
  byId("stage").replaceChildren();
  room.view = module.build({
    stage: byId("stage"), dials: byId("dials"), state, set, turn, plan,
    act: (act, more = {}) => connection.send({ do: "act", act, ...more }),
    tell: (dial, text) => room.dials.tell(dial, text),
    upload: (kind, file) => connection.upload(kind, file),
    toast, say, again: enter,
  });
  enter();
}

function enter() {
  keepAddress();
  room.visit = ++visits;
  room.ready = false;
  connection.send({ do: "enter", room: room.plan.name, state: room.state, visit: room.visit });
}

let queued = false, begun = 0;
function turned(dial, value) {
  room.state[dial.name] = value;
  room.view.dial?.(dial.name, value);
  if (dial.live) { turn(dial.name, value); return; }
  if (queued) return; // a slider being dragged begins the room anew at once, then at most thirty times a second
  queued = true;
  setTimeout(() => { queued = false; begun = performance.now(); enter(); }, Math.max(0, begun + 33 - performance.now()));
}

function turn(name, value) {
  room.state[name] = value;
  room.dials.set(name, value);
  keepAddress();
  if (room.ready) connection.send({ do: "turn", name, value }); else enter();
}

function set(values) {
  for (const [name, value] of Object.entries(values)) {
    room.state[name] = value;
    room.dials.set(name, value);
  }
  enter();
}

// ---- what the lab says ----

function heard(message) {
  if (message.kind === "hello") {
    stored(token);
    plans = Object.fromEntries(message.rooms.map((plan) => [plan.name, plan]));
    for (const link of byId("rooms").querySelectorAll("a")) link.hidden = !(link.getAttribute("href").slice(1) in plans);
    if (room && room.plan.name === fromAddress().name) enter(); else open();
    return;
  }
  if (message.kind === "error") { toast(message.text); return; }
  if (message.kind === "warming") { notice("The room is warming up: its code is being compiled."); return; }
  if (!room || message.visit !== room.visit) return; // of a room, or of dials, that have been left
  if (message.kind === "entered") { notice(""); room.ready = true; room.view.begin?.(message.state); return; }
  room.view.message(message);
}

const STATUS = {
  connecting: ["", ""], open: ["open", ""],
  lost: ["lost", "The lab does not answer. This page connects again as soon as it does."],
  refused: ["lost", "The token is missing or old: open the link that `equilibria lab` printed."],
  full: ["lost", "The lab has as many open tabs as it serves."],
};

function status(name, text) {
  const [shade, told] = STATUS[name];
  byId("light").className = `light ${shade}`;
  byId("light").setAttribute("aria-label", { open: "connected", connecting: "connecting" }[name] || "not connected");
  document.documentElement.dataset.connection = name;
  if (name !== "connecting") notice(text || told, shade === "lost");
}

function notice(text, bad = false) {
  byId("notice").textContent = text;
  byId("notice").classList.toggle("bad", bad);
}

let fading = null;
function toast(text) {
  byId("toast").textContent = text;
  clearTimeout(fading);
  fading = setTimeout(() => { byId("toast").textContent = ""; }, 7000);
}

function say(text) { if (byId("spoken").textContent !== text) byId("spoken").textContent = text; }

// ---- tools ----

function dialog(title, ...parts) {
  const close = el("button", { type: "button", text: "Close", onclick: () => byId("dialog").close() });
  byId("dialog").replaceChildren(el("h2", { id: "dialog-title", text: title }), ...parts.slice(0, -1), el("div", { class: "row" }, ...parts.at(-1), close));
  byId("dialog").showModal();
}

const failing = (work) => async () => { try { await work(); } catch (error) { toast(error.message); } };

byId("code").onclick = failing(async () => {
  const { text } = await connection.ask({ do: "code" });
  const copy = el("button", { type: "button", class: "main", text: "Copy", onclick: () => navigator.clipboard.writeText(text) });
  dialog("The same in Python", el("pre", { id: "code-text", tabindex: "0", text }), [copy]);
});

byId("save").onclick = () => {
  const name = `equilibria-${room.plan.name}`;
  const save = (label, work) => el("button", { type: "button", text: label, onclick: failing(work) });
  const numbersAs = (form, type) => async () => {
    const { content } = await connection.ask({ do: "file", form });
    download(`${name}.${form}`, new Blob([content], { type }));
  };
  const text = el("p", { text: "The figure as it stands, and the numbers behind it." });
  dialog("Export", text, [
    save("SVG", async () => download(`${name}.svg`, new Blob([asSvg(byId("stage"))], { type: "image/svg+xml" }))),
    save("PNG", async () => download(`${name}.png`, await asPng(byId("stage")))),
    save("CSV", numbersAs("csv", "text/csv")), save("netCDF", numbersAs("nc", "application/x-netcdf")),
  ]);
};

byId("link").onclick = failing(async () => {
  await navigator.clipboard.writeText(location.href);
  toast("The link is copied. It holds the token: whoever has it can use this lab while it runs.");
});

byId("theme").onclick = () => {
  const dark = document.documentElement.dataset.theme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  room?.view.redraw?.();
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => room?.view.redraw?.());

// On a phone the dials are folded away above the room.
const narrow = matchMedia("(max-width: 52rem)");
const fold = () => { byId("panel").open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();

const KEYS = [
  ["1 … 5", "go to a room"], ["r", "begin again"], ["space", "pause or go on"], [".", "one step"], ["n", "next seed"],
  ["c", "show the code"], ["e", "export"], ["?", "these keys"], ["arrows", "move in a diagram that has the focus"],
];

byId("help").onclick = () => dialog(
  "Keys", el("table", {}, ...KEYS.map(([key, what]) => el("tr", {}, el("td", {}, el("kbd", { text: key })), el("td", { text: what })))), [],
);

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open || !room) return;
  if (event.target.matches("input, select, textarea, button, a") && (event.key === " " || event.target.matches("input[type=number], select"))) return;
  const links = [...byId("rooms").querySelectorAll("a")].filter((link) => !link.hidden);
  const does = {
    r: enter, " ": () => room.view.pause?.(), ".": () => room.view.step?.(), c: byId("code").onclick, e: byId("save").onclick,
    "?": byId("help").onclick, n: () => set({ seed: (room.state.seed + 1) % 1_000_000 }),
  }[event.key] || (/^[1-5]$/.test(event.key) && links[event.key - 1] ? () => { location.hash = links[event.key - 1].getAttribute("href"); } : null);
  if (does) { event.preventDefault(); does(); }
});

for (const [name, on] of [["dragenter", true], ["dragover", true], ["dragleave", false], ["drop", false]]) {
  addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dragging", on);
    if (name === "drop" && event.dataTransfer.files.length) failing(async () => room.view.dropped?.([...event.dataTransfer.files]))();
  });
}

addEventListener("hashchange", () => { if (Object.keys(plans).length) open(); });

const connection = new Connection(token, { message: heard, status });
