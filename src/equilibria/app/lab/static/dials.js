// Controls made from what the lab says of its dials.

import { el, short } from "./dom.js";

const toSlider = (dial, value) => (dial.scale === "sqrt" ? Math.sqrt((value - dial.least) / (dial.most - dial.least)) : value);
const fromSlider = (dial, at) => {
  if (dial.scale !== "sqrt") return at;
  const value = dial.least + at * at * (dial.most - dial.least);
  return Math.min(dial.most, Math.max(dial.least, Math.round(value / dial.step) * dial.step));
};

export class Dials {
  constructor(root, plan, state, turned) {
    this.plan = plan;
    this.setters = {};
    this.outputs = {};
    root.replaceChildren(...plan.dials.filter((dial) => dial.kind !== "text").map((dial) => this.control(dial, state[dial.name], turned)));
    root.onsubmit = (event) => event.preventDefault();
  }

  set(name, value) { this.setters[name]?.(value); }

  tell(name, text) { if (this.outputs[name]) this.outputs[name].textContent = text; }

  control(dial, value, turned) {
    if (dial.kind === "choice") return dial.choices.length > 3 ? this.list(dial, value, turned) : this.segments(dial, value, turned);
    return dial.name === "seed" ? this.box(dial, value, turned) : this.slider(dial, value, turned);
  }

  frame(dial, ...parts) {
    const about = dial.about ? el("span", { class: "about", id: `about-${dial.name}`, text: dial.about }) : null;
    return el("div", { class: "dial" }, ...parts, about);
  }

  slider(dial, value, turned) {
    const id = `dial-${dial.name}`;
    const root = dial.scale === "sqrt";
    const output = el("output", { for: id });
    const input = el("input", {
      type: "range", id, min: root ? 0 : dial.least, max: root ? 1 : dial.most, step: root ? 0.0005 : dial.step,
      "aria-describedby": dial.about ? `about-${dial.name}` : null,
    });
    const show = (number) => {
      output.textContent = short(number);
      input.setAttribute("aria-valuetext", short(number));
    };
    input.addEventListener("input", () => {
      const number = fromSlider(dial, Number(input.value));
      show(number);
      turned(dial, number);
    });
    this.setters[dial.name] = (number) => { input.value = toSlider(dial, number); show(Number(number)); };
    this.outputs[dial.name] = output;
    this.setters[dial.name](value);
    return this.frame(dial, el("label", { for: id, text: dial.label }), output, input);
  }

  box(dial, value, turned) {
    const id = `dial-${dial.name}`;
    const input = el("input", { type: "number", class: "field", id, min: dial.least, max: dial.most, step: 1 });
    const give = () => { if (input.checkValidity() && input.value !== "") turned(dial, Number(input.value)); };
    input.addEventListener("change", give);
    const next = () => { input.value = (Number(input.value) + 1) % (dial.most + 1); give(); };
    this.setters[dial.name] = (number) => { input.value = number; };
    this.setters[dial.name](value);
    const row = el("div", { class: "wide row" }, input, el("button", { type: "button", onclick: next, text: "Next" }));
    return this.frame(dial, el("label", { for: id, text: dial.label }), row);
  }

  list(dial, value, turned) {
    const id = `dial-${dial.name}`;
    const input = el("select", { id }, ...dial.choices.map(([each, name]) => el("option", { value: each, text: name })));
    const given = () => dial.choices.find(([each]) => String(each) === input.value)[0];
    input.addEventListener("change", () => turned(dial, given()));
    this.setters[dial.name] = (each) => { input.value = String(each); };
    this.setters[dial.name](value);
    return this.frame(dial, el("label", { for: id, text: dial.label }), input);
  }

  segments(dial, value, turned) {
    const buttons = dial.choices.map(([each, name]) => {
      const input = el("input", { type: "radio", name: `dial-${dial.name}`, value: each, onchange: () => turned(dial, each) });
      return el("label", {}, input, name);
    });
    this.setters[dial.name] = (each) => {
      for (const label of buttons) label.firstChild.checked = label.firstChild.value === String(each);
    };
    this.setters[dial.name](value);
    const row = el("div", { class: "segments" }, ...buttons);
    const box = el("fieldset", { class: "dial", id: `dial-${dial.name}` }, el("legend", { text: dial.label }), row);
    if (dial.about) box.append(el("span", { class: "about", text: dial.about }));
    return box;
  }
}
