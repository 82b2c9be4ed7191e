// The stage as one picture: every card where it stands, charts as vectors, neurons as pixels.

import { colour, svg } from "./dom.js";

const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "fill-opacity"];

function frozen(node) {
  const copy = node.cloneNode(true);
  const before = [node, ...node.querySelectorAll("*")], after = [copy, ...copy.querySelectorAll("*")];
  before.forEach((each, index) => {
    const style = getComputedStyle(each);
    for (const name of KEPT) after[index].setAttribute(name, style.getPropertyValue(name));
    after[index].removeAttribute("class");
  });
  return copy;
}

export function asSvg(stage) {
  const whole = stage.getBoundingClientRect();
  const width = Math.ceil(whole.width) + 32, height = Math.ceil(whole.height) + 32;
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
  root.append(svg("rect", { width, height, fill: colour("--page") }));
  const at = (node) => {
    const box = node.getBoundingClientRect();
    return { x: box.left - whole.left + 16, y: box.top - whole.top + 16, width: box.width, height: box.height };
  };
  for (const card of stage.querySelectorAll("[data-figure]")) {
    root.append(svg("rect", { ...at(card), rx: 10, fill: colour("--card"), stroke: colour("--line") }));
  }
  for (const node of stage.querySelectorAll("h3 span, h3 small, .numbers dt, .numbers dd span, .numbers dd small, .bars span")) {
    const { x, y, height: tall } = at(node), style = getComputedStyle(node);
    root.append(svg("text", { x, y: y + tall * 0.74, fill: style.color, "font-size": style.fontSize, "font-weight": style.fontWeight, "font-family": "system-ui, sans-serif", text: node.textContent }));
  }
  for (const bar of stage.querySelectorAll(".bars i")) root.append(svg("rect", { ...at(bar), fill: getComputedStyle(bar).backgroundColor }));
  for (const canvas of stage.querySelectorAll("canvas")) {
    root.append(svg("image", { ...at(canvas), href: canvas.toDataURL("image/png"), "image-rendering": "pixelated" }));
  }
  for (const chart of stage.querySelectorAll("svg.chart")) {
    const copy = frozen(chart), box = at(chart);
    for (const [name, value] of Object.entries(box)) copy.setAttribute(name, value);
    root.append(copy);
  }
  return new XMLSerializer().serializeToString(root);
}

export async function asPng(stage) {
  const text = asSvg(stage);
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const image = new Image();
  await new Promise((resolve, reject) => { image.onload = resolve; image.onerror = reject; image.src = address; });
  const canvas = document.createElement("canvas");
  canvas.width = 2 * image.width;
  canvas.height = 2 * image.height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

export function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
