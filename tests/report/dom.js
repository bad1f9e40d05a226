// Just enough of a document to run the page's own script without a browser: elements made from the
// parsed page, attributes, events, tables, and a canvas that writes down what is drawn on it.
// parseHtml(text) comes from Python's html.parser and returns nested [tag, attributes, children].
"use strict";

class Element {
  constructor(tag, attributes) {
    this.tag = tag;
    this.attributes = { ...attributes };
    this.nodes = [];
    this.listeners = {};
    this.style = {};
    this.hidden = "hidden" in attributes;
    if (tag === "input") this.value = attributes.value ?? "";
  }
  get children() { return this.nodes.filter((n) => n instanceof Element); }
  get firstElementChild() { return this.children[0] ?? null; }
  get lastElementChild() { return this.children[this.children.length - 1] ?? null; }
  get id() { return this.attributes.id; }
  get className() { return this.attributes.class ?? ""; }
  set className(text) { this.attributes.class = text; }
  getAttribute(name) { return this.attributes[name] ?? null; }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  get textContent() { return this.nodes.map((n) => (n instanceof Element ? n.textContent : n)).join(""); }
  set textContent(text) { this.nodes = [String(text)]; }
  set innerHTML(text) { this.nodes = JSON.parse(parseHtml(text)).map(build); }
  append(...elements) {
    for (const e of elements) {
      if (e.parent) e.parent.nodes = e.parent.nodes.filter((n) => n !== e);
      this.nodes.push(e);
      e.parent = this;
    }
  }
  all(test) { return this.children.flatMap((c) => [...(test(c) ? [c] : []), ...c.all(test)]); }
  addEventListener(type, f) { (this.listeners[type] ??= []).push(f); }
  dispatch(type, event = {}) {
    for (const f of this.listeners[type] ?? []) f({ type, preventDefault() {}, ...event });
    this[`on${type}`]?.({ type, ...event });
  }
  click() { this.dispatch("click"); }
  getBoundingClientRect() { return { left: 0, top: 0, width: this.clientWidth, height: 0 }; }
  get clientWidth() { return 0; }
  get clientHeight() { return 0; }
  setPointerCapture() {}
  scrollIntoView() { this.scrolled = true; }
  // tables
  get rows() { return this.all((e) => e.tag === "tr"); }
  get cells() { return this.children; }
  get tHead() { return this.children.find((e) => e.tag === "thead"); }
  get tBodies() { return this.children.filter((e) => e.tag === "tbody"); }
  // a select's value is that of its chosen option
  get options() { return this.all((e) => e.tag === "option"); }
  get value() {
    if (this.tag !== "select") return this.held;
    const chosen = this.picked ?? this.options.find((o) => "selected" in o.attributes) ?? this.options[0];
    return chosen?.getAttribute("value") ?? chosen?.textContent ?? "";
  }
  set value(v) {
    this.held = v;
    if (this.tag === "select") this.picked = this.options.find((o) => (o.getAttribute("value") ?? o.textContent) === v);
  }
  getContext() { return (this.context ??= recorder()); }
}

function recorder() {
  const calls = [], state = {};
  const gradient = () => ({ addColorStop(at, colour) { calls.push(["stop", at, colour]); } });
  const made = { createLinearGradient: gradient, createRadialGradient: gradient, measureText: (t) => ({ width: 6 * t.length }) };
  return new Proxy({ calls }, {
    get: (target, name) => target[name] ?? made[name] ?? state[name] ?? ((...args) => { calls.push([name, ...args]); }),
    set: (target, name, value) => { state[name] = value; return true; },
  });
}

function build(node) {
  if (typeof node === "string") return node;
  const [tag, attributes, children] = node;
  const element = new Element(tag, attributes);
  for (const child of children) {
    const made = build(child);
    element.nodes.push(made);
    if (made instanceof Element) made.parent = element;
  }
  return element;
}

function setUp(page) {
  const root = new Element("document", {});
  root.nodes = JSON.parse(parseHtml(page)).map(build);
  root.documentElement = root.children.find((e) => e.tag === "html");
  const known = new Map(root.all((e) => e.id !== undefined).map((e) => [e.id, e]));
  root.getElementById = (id) => known.get(id) ?? root.all((e) => e.id === id)[0] ?? null;
  root.querySelectorAll = (selector) => {
    if (selector === "table.sortable") return root.all((e) => e.tag === "table" && e.className === "sortable");
    if (selector === "[data-case]") return root.all((e) => "data-case" in e.attributes);
    throw new Error(`this document does not know the selector ${selector}`);
  };
  const css = root.all((e) => e.tag === "style")[0].textContent;
  globalThis.getComputedStyle = () => ({
    getPropertyValue: (name) => new RegExp(`${name}:\\s*([^;]+);`).exec(css)?.[1] ?? "",
  });
  globalThis.frames = [];
  globalThis.requestAnimationFrame = (f) => frames.push(f);
  globalThis.document = root;
}

/** Runs the frames that wait, once, at a time in milliseconds. */
function nextFrame(now) {
  const waiting = frames.splice(0);
  for (const f of waiting) f(now);
  return waiting.length;
}
