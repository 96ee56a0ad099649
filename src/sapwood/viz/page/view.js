// Drawing, panning, zooming; only what is in sight is in the document.
"use strict";
const NS = "http://www.w3.org/2000/svg";
const $ = id => document.getElementById(id);
const stage = $("stage"), canvas = $("canvas"), world = $("world");
let scene = { items: [], links: [] }, view = "forward", scale = 1, dx = 0, dy = 0, chosen = null, hits = new Set(), step = 0;
let size = { w: 1, h: 1 };
function make(name, attributes, parent, text) {
  const e = document.createElementNS(NS, name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}
function rebuild(keep) {
  scene = shown();
  size = { w: 60, h: 60 };
  for (const i of scene.items) { size.w = Math.max(size.w, i.x + i.w / 2 + 24); size.h = Math.max(size.h, i.y + i.h / 2 + 24); }
  if (!keep) fit(); else draw();
}
function copies() {
  // Each copy: how far it is shifted and which way its links run.
  if (view === "backward") return [{ ox: 0, oy: 0, back: true }];
  if (view === "both") return SIDEWAYS ? [{ ox: 0, oy: 0 }, { ox: 0, oy: size.h + 50, back: true }] : [{ ox: 0, oy: 0 }, { ox: size.w + 50, oy: 0, back: true }];
  return [{ ox: 0, oy: 0 }];
}
function extent() {
  const many = view === "both" ? 2 : 1;
  return SIDEWAYS ? { w: size.w, h: many * size.h + (many - 1) * 50 } : { w: many * size.w + (many - 1) * 50, h: size.h };
}
function fit() {
  const e = extent(), w = stage.clientWidth || 800, h = stage.clientHeight || 600;
  scale = Math.max(0.02, Math.min(1.6, w / e.w, h / e.h) * 0.96);
  dx = (w - e.w * scale) / 2; dy = (h - e.h * scale) / 2;
  draw();
}
function start() {
  // A graph too large to be read as a whole is entered at its root.
  const e = extent(), whole = Math.min(stage.clientWidth / e.w, stage.clientHeight / e.h);
  const root = scene.items.find(i => i.kind === "root");
  if (whole > 0.12 || !root) return fit();
  scale = 0.8;
  dx = stage.clientWidth / 2 - root.x * scale; dy = (SIDEWAYS ? stage.clientHeight / 2 : stage.clientHeight - 90) - root.y * scale;
  if (SIDEWAYS) dx = stage.clientWidth - 120 - root.x * scale;
  draw();
}
function zoom(by, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
  const to = Math.max(0.02, Math.min(6, scale * by));
  dx = x - (x - dx) * to / scale; dy = y - (y - dy) * to / scale; scale = to;
  draw();
}
function centre(item) {
  if (!item) return;
  scale = Math.max(scale, 0.7);
  dx = stage.clientWidth / 2 - item.x * scale; dy = stage.clientHeight / 2 - item.y * scale;
  draw();
}
let waiting = 0;
function draw() { if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; paint(); }); }
function pathOf(a, b, shift) {
  if (SIDEWAYS) {
    const x = a.x + a.w / 2, y = a.y + shift, u = b.x - b.w / 2, v = b.y + shift, m = (x + u) / 2;
    return { d: `M${x} ${y}C${m} ${y} ${m} ${v} ${u} ${v}`, sx: x, sy: y, ex: u, ey: v, mx: m, my: (y + v) / 2 };
  }
  const x = a.x + shift, y = a.y + a.h / 2, u = b.x + shift, v = b.y - b.h / 2, m = (y + v) / 2;
  return { d: `M${x} ${y}C${x} ${m} ${u} ${m} ${u} ${v}`, sx: x, sy: y, ex: u, ey: v, mx: (x + u) / 2, my: m };
}
function tip(g, x, y, dirX, dirY, back) {
  const s = 4.2;
  const p = dirX ? `${x},${y} ${x - 8 * dirX},${y - s} ${x - 8 * dirX},${y + s}` : `${x},${y} ${x - s},${y - 8 * dirY} ${x + s},${y - 8 * dirY}`;
  make("polygon", { points: p, class: back ? "tip back" : "tip" }, g);
}
function paint() {
  world.replaceChildren();
  world.setAttribute("transform", `translate(${dx} ${dy}) scale(${scale})`);
  world.classList.toggle("far", scale < 0.3);
  const x0 = -dx / scale, y0 = -dy / scale, x1 = x0 + stage.clientWidth / scale, y1 = y0 + stage.clientHeight / scale;
  const states = statesNow();
  for (const c of copies()) {
    const g = make("g", { transform: `translate(${c.ox} ${c.oy})` }, world);
    const seen = i => i.x + i.w / 2 + c.ox >= x0 && i.x - i.w / 2 + c.ox <= x1 && i.y + i.h / 2 + c.oy >= y0 && i.y - i.h / 2 + c.oy <= y1;
    if (scale > 0.12 && !folded.size) bands(g);
    for (const l of scene.links) {
      const a = scene.items[l.source], b = scene.items[l.target];
      if (Math.max(a.x, b.x) + 80 + c.ox < x0 || Math.min(a.x, b.x) - 80 + c.ox > x1 || Math.max(a.y, b.y) + 80 + c.oy < y0 || Math.min(a.y, b.y) - 80 + c.oy > y1) continue;
      const near = chosen !== null && (a.id === chosen || b.id === chosen) ? " near" : "";
      const pale = states && !(states.get(a.id) && states.get(b.id)) ? " pale" : "";
      const p = pathOf(a, b, 0);
      make("path", { d: p.d, class: "link" + (c.back ? " back" : "") + near + pale }, g);
      if (scale > 0.2) {
        if (c.back) tip(g, p.sx, p.sy, SIDEWAYS ? -1 : 0, SIDEWAYS ? 0 : -1, true);
        else tip(g, p.ex, p.ey, SIDEWAYS ? 1 : 0, SIDEWAYS ? 0 : 1, false);
      }
      if (view === "over" && wantsGradient(a)) {
        const q = pathOf(a, b, 7);
        make("path", { d: q.d, class: "link back" }, g);
        if (scale > 0.2) tip(g, q.sx, q.sy, SIDEWAYS ? -1 : 0, SIDEWAYS ? 0 : -1, true);
      }
      if (l.label && scale > 0.55) make("text", { x: p.mx, y: p.my + 3, class: "small edge" }, g, l.label);
    }
    for (const i of scene.items) if (seen(i)) itemOf(g, i, c, states);
  }
}
function wantsGradient(i) { return i.kind === "module" || i.kind === "op" || i.requires_grad !== false; }
function bands(g) {
  // The items of a module on one ground: a rectangle behind each, a broad stroke along the links between them.
  for (const [path, members] of MODULES) {
    if (path.includes(".") || members.length < 2) continue;
    const inside = new Set(members), layer = make("g", { class: "band" }, g);
    let first = null;
    for (const k of members) {
      const i = DATA.items[k];
      make("rect", { x: i.x - i.w / 2 - 9, y: i.y - i.h / 2 - 9, width: i.w + 18, height: i.h + 18, rx: 12 }, layer);
      if (!first || i.y < first.y) first = i;
    }
    for (const l of DATA.links) if (inside.has(l.source) && inside.has(l.target)) make("path", { d: pathOf(DATA.items[l.source], DATA.items[l.target], 0).d }, layer);
    if (scale > 0.45) make("text", { x: first.x - first.w / 2 - 6, y: first.y - first.h / 2 - 13, class: "bandname" }, g, path);
  }
}
function itemOf(parent, i, c, states) {
  const state = states ? states.get(i.id) : "";
  const cls = ["item", i.kind === "leaf" && i.parameter ? "parameter" : i.kind];
  if (i.id === chosen) cls.push("chosen");
  if (hits.has(i.id)) cls.push("hit");
  if (states && !state) cls.push("pale");
  if (state) cls.push(...state.split(" "));
  const g = make("g", { class: cls.join(" "), transform: `translate(${i.x} ${i.y})`, "data-id": i.id, role: "graphics-symbol", "aria-label": label(i) }, parent);
  const round = i.kind === "op" || i.kind === "module" ? 7 : Math.min(i.w, i.h) / 2;
  make("rect", { class: "box", x: -i.w / 2, y: -i.h / 2, width: i.w, height: i.h, rx: round }, g);
  if (scale < 0.3) return;
  const title = c.back && i.node ? i.node.replace(/Backward\d*$/, "′") : i.title;
  let lines = state && live(i) ? live(i) : i.lines;
  if (i.kind === "op" && lines.length > 1) lines = [lines.join(" · ")];
  const top = -(lines.length * 12.5) / 2;
  make("text", { class: "name", y: top + 4 }, g, clip(title, i.w, 7));
  lines.forEach((t, k) => make("text", { class: "small", y: top + 18 + k * 12.5 }, g, clip(t, i.w, 5.4)));
}
function clip(text, width, each) { const n = Math.max(3, Math.floor((width - 4) / each)); return text.length > n ? text.slice(0, n - 1) + "…" : text; }
function label(i) { return [i.title, i.node, i.shape ? `shape ${i.shape.join(" by ") || "scalar"}` : "", i.scope ? `in ${i.scope}` : ""].filter(Boolean).join(", "); }
