// The one connection to the lab. A message from it is a length, a line of JSON, and arrays behind it (frames.py).

const ARRAYS = { int8: Int8Array, uint8: Uint8Array, int32: Int32Array, float32: Float32Array };

export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const message = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let place = 4 + length;
  for (const [name, kind, shape] of message.arrays || []) {
    const count = shape.reduce((product, size) => product * size, 1);
    message[name] = new ARRAYS[kind](buffer, place, count);
    message[name].shape = shape;
    place += Math.ceil(message[name].byteLength / 4) * 4;
  }
  return message;
}

export class Connection {
  constructor(token, { message, status }) {
    Object.assign(this, { token, message, status, waiting: new Map(), count: 0, tries: 0, ended: false });
    this.connect();
  }

  connect() {
    this.status("connecting");
    const socket = new WebSocket(`ws${location.protocol === "https:" ? "s" : ""}://${location.host}/api/live?token=${encodeURIComponent(this.token)}`);
    socket.binaryType = "arraybuffer";
    let opened = false;
    socket.onopen = () => { opened = true; };
    socket.onmessage = (event) => this.heard(unpack(event.data));
    socket.onclose = () => this.lost(opened);
    this.socket = socket;
  }

  heard(message) {
    if (message.kind === "hello") { this.tries = 0; this.status("open"); }
    if (message.kind === "full") { this.full = message.text; }
    const asked = message.re !== undefined && message.re !== null ? this.waiting.get(message.re) : null;
    if (asked) {
      this.waiting.delete(message.re);
      if (message.kind === "error") asked.reject(new Error(message.text)); else asked.resolve(message);
      return;
    }
    this.message(message);
  }

  async lost(opened) {
    for (const asked of this.waiting.values()) asked.reject(new Error("The lab is not connected."));
    this.waiting.clear();
    if (this.ended) return;
    let status = "lost";
    if (this.full) { status = "full"; } else if (!opened && await this.answers()) { status = "refused"; }
    this.status(status, this.full);
    this.full = null;
    // A refused token does not become right by asking again; a server that ended may be started again with the same one.
    const pause = status === "lost" ? Math.min(4000, 400 * 1.5 ** this.tries++) : 4000;
    setTimeout(() => this.connect(), pause);
  }

  async answers() {
    try { return (await fetch("/static/icon.svg", { cache: "no-store" })).ok; } catch { return false; }
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  ask(message) {
    const re = ++this.count;
    return new Promise((resolve, reject) => {
      if (this.socket.readyState !== WebSocket.OPEN) { reject(new Error("The lab is not connected.")); return; }
      this.waiting.set(re, { resolve, reject });
      this.send({ ...message, re });
    });
  }

  async upload(kind, file) {
    const address = `/api/upload?kind=${kind}&name=${encodeURIComponent(file.name)}`;
    const answer = await fetch(address, { method: "POST", body: file, headers: { "X-Lab-Token": this.token } });
    const found = await answer.json().catch(() => ({ error: `The lab answered ${answer.status}.` }));
    if (found.error) throw new Error(found.error);
    return found;
  }
}
