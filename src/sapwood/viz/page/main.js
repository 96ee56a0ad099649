// Controls: pointer, keyboard, buttons.
const $ = id => document.getElementById(id), canvas = $("canvas"), context = canvas.getContext("2d");
const view = {x: 0, y: 0, scale: 1, mode: "forward"};
let wanted = false, found = [], foundAt = -1;
const SPACE = 60;
const sceneWidth = () => view.mode === "side" ? scene.width * 2 + SPACE : scene.width;

function refresh() { if (!wanted) { wanted = true; requestAnimationFrame(paint); } showDetails(scene.nodes[state.selected], step); }
function repaint() { if (!wanted) { wanted = true; requestAnimationFrame(paint); } }
function paint() {
  wanted = false;
  const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) { canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio); }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = palette().bg; context.fillRect(0, 0, w, h);
  const s = view.scale, one = (mode, dx) => {
    context.setTransform(ratio * s, 0, 0, ratio * s, ratio * (view.x + dx * s), ratio * view.y);
    const left = -view.x / s - dx, top = -view.y / s;
    paintGraph(new CanvasPen(context), mode, [left - 12, top - 12, left + w / s + 12, top + h / s + 12], s, state);
  };
  if (view.mode === "side") { one("forward", 0); one("backward", scene.width + SPACE); } else one(view.mode, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
}
function fit() {
  const w = canvas.clientWidth, h = canvas.clientHeight, pad = 40;
  view.scale = Math.max(0.02, Math.min(1.6, (w - pad * 2) / sceneWidth(), (h - pad * 2) / scene.height));
  view.x = (w - sceneWidth() * view.scale) / 2;
  view.y = Math.max((h - scene.height * view.scale) / 2, pad / 2);
  // A graph too large to be read at once starts with its first operation, large enough to be read.
  if (view.scale < 0.12) {
    const first = scene.nodes[DATA.forward.length ? scene.where[DATA.forward[0]] : 0];
    view.scale = 0.7; view.x = w / 2 - first.x * 0.7; view.y = h / 4 - first.y * 0.7;
  }
  repaint();
}
// Keep what a step is about on screen.
function follow(item) {
  if (!scene || item === null || step >= END) return;
  const n = scene.nodes[scene.where[item]], x = n.x * view.scale + view.x, y = n.y * view.scale + view.y;
  if (x < 20 || y < 20 || x > canvas.clientWidth - 20 || y > canvas.clientHeight - 20) {
    view.x += canvas.clientWidth / 2 - x; view.y += canvas.clientHeight / 2 - y;
  }
}
function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const s = Math.max(0.01, Math.min(8, view.scale * factor)), k = s / view.scale;
  view.x = x - (x - view.x) * k; view.y = y - (y - view.y) * k; view.scale = s;
  repaint();
}
function nodeAt(px, py) {
  let x = (px - view.x) / view.scale; const y = (py - view.y) / view.scale;
  if (view.mode === "side" && x > scene.width + SPACE / 2) x -= scene.width + SPACE;
  return scene.nodes.findIndex(n => Math.abs(n.x - x) <= n.w / 2 && Math.abs(n.y - y) <= n.h / 2);
}
function select(n, centre) {
  state.selected = n;
  const node = scene.nodes[n];
  $("status").textContent = node ? `${node.title}, ${node.kind === "op" ? "operation" : node.kind}, ${node.lines.join(", ")}; ${scene.into[n].length} inputs, ${scene.from[n].length} uses` : "";
  if (node) tab("node");
  if (node && centre) {
    const sx = node.x * view.scale + view.x, sy = node.y * view.scale + view.y;
    if (sx < 60 || sy < 60 || sx > canvas.clientWidth - 60 || sy > canvas.clientHeight - 60) {
      if (view.scale < 0.4) view.scale = 0.9;
      view.x = canvas.clientWidth / 2 - node.x * view.scale; view.y = canvas.clientHeight / 2 - node.y * view.scale;
    }
  }
  refresh();
}
function reveal(item) {
  let key;
  while ((key = homeOf(item)) !== null) folded.delete(key);
  rebuild(item); select(scene.where[item], true);
}
function rebuild(item) {
  scene = buildScene();
  state.selected = item === undefined ? -1 : scene.where[item];
  search(0); showModules(); showLegend(); refresh();
}
function fold(key, on) {
  const item = modules.get(key).items[0];
  if (on) folded.add(key); else folded.delete(key);
  rebuild(item); fit();
}
function foldAll(on) {
  folded.clear();
  if (on) for (const m of modules.values()) if (m.path.length === 1) folded.add(m.key);
  rebuild(); fit();
}
function showModules() {
  const panel = $("modules"), all = el("button", {id: "fold-all"}, "Fold all"), none = el("button", {id: "unfold-all"}, "Unfold all");
  const focused = document.activeElement && document.activeElement.id;
  all.addEventListener("click", () => foldAll(true)); none.addEventListener("click", () => foldAll(false));
  panel.replaceChildren(el("h2", {}, runs ? "Runs of operations" : "Modules"));
  if (!modules.size) { panel.append(el("p", {class: "sub"}, "No modules are known. Pass module= to show, and a function in place of the loss.")); return; }
  panel.append(el("div", {class: "row"}, all, none));
  [...modules.values()].sort((a, b) => runs ? a.order - b.order : a.key < b.key ? -1 : 1).forEach((m, k) => {
    const b = el("button", {id: "module-" + k, class: "module d" + Math.min(m.path.length - 1, 5), "aria-expanded": String(!folded.has(m.key))},
      el("span", {}, folded.has(m.key) ? "▸" : "▾"), el("span", {}, m.path[m.path.length - 1]), el("span", {class: "n"}, String(m.items.length)));
    b.addEventListener("click", () => fold(m.key, !folded.has(m.key)));
    panel.append(b);
  });
  if (focused && $(focused)) $(focused).focus();
}
function search(go) {
  const text = $("search").value.trim().toLowerCase();
  found = []; state.matches = new Set();
  if (text) DATA.items.forEach((item, i) => {
    const d = DATA.details[i];
    if ([item.title, d.name, d.shape, d.dtype, (d.scope || []).join("."), d.file && d.file + ":" + d.line].some(t => t && t.toLowerCase().includes(text))) { found.push(i); state.matches.add(scene.where[i]); }
  });
  $("matches").textContent = text ? String(found.length) : "";
  if (go && found.length) { foundAt = (foundAt + go + found.length) % found.length; reveal(found[foundAt]); }
  repaint();
}
function tab(name) {
  for (const t of ["node", "flow", "modules"]) {
    $(t).hidden = t !== name;
    $("tab-" + t).setAttribute("aria-selected", String(t === name)); $("tab-" + t).tabIndex = t === name ? 0 : -1;
  }
}
function setView(mode) {
  view.mode = mode;
  for (const b of $("views").children) { b.setAttribute("aria-checked", String(b.dataset.view === mode)); b.tabIndex = b.dataset.view === mode ? 0 : -1; }
  fit();
}
function download(blob, name) {
  const a = el("a", {href: URL.createObjectURL(blob), download: name});
  document.body.append(a); a.click(); a.remove();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
function paintAll(make) {
  if (view.mode === "side") { make("forward", 0); make("backward", scene.width + SPACE); } else make(view.mode, 0);
}
function svgText() {
  const w = sceneWidth(), h = scene.height, parts = [];
  paintAll((mode, dx) => {
    const pen = new SvgPen();
    paintGraph(pen, mode, [-Infinity, -Infinity, Infinity, Infinity], 1, state);
    parts.push(`<g transform="translate(${dx} 0)">${pen.out.join("\n")}</g>`);
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" font-family="Arial,Helvetica,'Liberation Sans',sans-serif" role="img"><title>Computation graph</title><rect width="${w}" height="${h}" fill="${palette().bg}"/>${parts.join("\n")}</svg>`;
}
function savePng() {
  const w = sceneWidth(), h = scene.height, s = Math.min(2, 16000 / Math.max(w, h), Math.sqrt(6e7 / (w * h)));
  const sheet = document.createElement("canvas"); sheet.width = Math.ceil(w * s); sheet.height = Math.ceil(h * s);
  const c = sheet.getContext("2d"); c.fillStyle = palette().bg; c.fillRect(0, 0, sheet.width, sheet.height);
  paintAll((mode, dx) => { c.setTransform(s, 0, 0, s, dx * s, 0); paintGraph(new CanvasPen(c), mode, [-Infinity, -Infinity, Infinity, Infinity], s, state); });
  sheet.toBlob(blob => blob && download(blob, "graph.png"));
}
function arrow(key) {
  const n = state.selected;
  if (n < 0) return select(scene.nodes.findIndex(v => v.kind === "root") >= 0 ? scene.nodes.findIndex(v => v.kind === "root") : scene.nodes.length - 1, true);
  const here = scene.nodes[n], near = list => list.slice().sort((a, b) => Math.abs(scene.nodes[a].x - here.x) - Math.abs(scene.nodes[b].x - here.x) || a - b)[0];
  let to;
  if (key === "ArrowUp") to = near(scene.into[n]);
  else if (key === "ArrowDown") to = near(scene.from[n]);
  else {
    const side = key === "ArrowLeft" ? -1 : 1;
    let best = Infinity;
    scene.nodes.forEach((v, i) => { const dx = (v.x - here.x) * side, far = dx + 3 * Math.abs(v.y - here.y); if (i !== n && dx > 4 && far < best) { best = far; to = i; } });
  }
  if (to !== undefined) select(to, true);
}

let drag = null;
canvas.addEventListener("pointerdown", e => { drag = {x: e.offsetX, y: e.offsetY, vx: view.x, vy: view.y, moved: false}; canvas.setPointerCapture(e.pointerId); });
canvas.addEventListener("pointermove", e => {
  if (!drag) return;
  if (Math.hypot(e.offsetX - drag.x, e.offsetY - drag.y) > 3) drag.moved = true;
  if (drag.moved) { canvas.classList.add("dragging"); view.x = drag.vx + e.offsetX - drag.x; view.y = drag.vy + e.offsetY - drag.y; repaint(); }
});
canvas.addEventListener("pointerup", e => { if (drag && !drag.moved) select(nodeAt(e.offsetX, e.offsetY), false); drag = null; canvas.classList.remove("dragging"); });
canvas.addEventListener("pointercancel", () => { drag = null; });
canvas.addEventListener("dblclick", e => { const n = scene.nodes[nodeAt(e.offsetX, e.offsetY)]; if (n && n.group !== null) fold(n.group, false); else if (n) { const keys = keysOf(n.items[0]); if (keys.length) fold(keys[keys.length - 1], true); } });
canvas.addEventListener("wheel", e => { e.preventDefault(); if (e.ctrlKey || !e.shiftKey) zoom(Math.exp(-Math.max(-200, Math.min(200, e.deltaY)) * 0.002), e.offsetX, e.offsetY); else { view.x -= e.deltaY; repaint(); } }, {passive: false});
for (const b of $("views").children) b.addEventListener("click", () => setView(b.dataset.view));
$("views").addEventListener("keydown", e => {
  const all = [...$("views").children], way = {ArrowRight: 1, ArrowLeft: -1}[e.key];
  if (!way) return;
  const to = all[(all.indexOf(document.activeElement) + way + all.length) % all.length];
  setView(to.dataset.view); to.focus(); e.preventDefault(); e.stopPropagation();
});
for (const t of ["node", "flow", "modules"]) $("tab-" + t).addEventListener("click", () => tab(t));
document.querySelector(".tabs").addEventListener("keydown", e => {
  const all = ["node", "flow", "modules"], way = {ArrowRight: 1, ArrowLeft: -1}[e.key];
  if (!way) return;
  const to = all[(all.findIndex(t => !$(t).hidden) + way + 3) % 3];
  tab(to); $("tab-" + to).focus(); e.preventDefault(); e.stopPropagation();
});
$("in").addEventListener("click", () => zoom(1.25)); $("out").addEventListener("click", () => zoom(0.8)); $("fit").addEventListener("click", fit);
$("png").addEventListener("click", savePng); $("svg").addEventListener("click", () => download(new Blob([svgText()], {type: "image/svg+xml"}), "graph.svg"));
$("help").addEventListener("click", () => $("keys").showModal());
$("play").addEventListener("click", () => play(timer === null));
$("step").addEventListener("input", () => { play(false); setStep(Number($("step").value)); });
$("search").addEventListener("input", () => { foundAt = -1; search(0); });
$("search").addEventListener("keydown", e => { if (e.key === "Enter") { search(e.shiftKey ? -1 : 1); e.preventDefault(); } if (e.key === "Escape") { $("search").value = ""; search(0); canvas.focus(); } });
const dark = matchMedia("(prefers-color-scheme: dark)");
let chosen = false;
function theme(name) { document.documentElement.dataset.theme = name; showLegend(); repaint(); }
dark.addEventListener("change", () => { if (!chosen) theme(dark.matches ? "dark" : "light"); });
$("theme").addEventListener("click", () => { chosen = true; theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); });
function showLegend() {
  const words = {leaf: "leaf", nonleaf: "intermediate", root: "root", buffer: "no gradient", op: "operation", group: runs ? "folded run" : "folded module"};
  $("legend").replaceChildren(...Object.entries(words).filter(([k]) => k === "group" ? folded.size : DATA.items.some(i => i.kind === k)).map(([k, word]) => {
    const mark = el("i", {class: k === "op" || k === "group" ? "op" : ""});
    [mark.style.background, mark.style.borderColor] = PALETTES[document.documentElement.dataset.theme][k];
    return el("span", {}, mark, word);
  }));
}
addEventListener("resize", repaint);
addEventListener("keydown", e => {
  if ($("keys").open || e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = e.target.matches("input[type=search],input[type=text]");
  if (typing) return;
  const pressing = e.target.matches("button,input");
  if (e.key === "/") { $("search").focus(); $("search").select(); }
  else if (e.key === "f") fit();
  else if (e.key === "+" || e.key === "=") zoom(1.25);
  else if (e.key === "-") zoom(0.8);
  else if (e.key === "?") $("keys").showModal();
  else if (e.key === " " && !pressing) play(timer === null);
  else if (e.key === "Escape") select(-1, false);
  else if (e.key === "Enter" && e.target === canvas) { const n = scene.nodes[state.selected]; if (n && n.group !== null) fold(n.group, false); }
  else if (e.key.startsWith("Arrow") && (e.target === canvas || e.target === document.body)) arrow(e.key);
  else return;
  e.preventDefault();
});

document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
$("count").textContent = `${DATA.items.length} items`;
$("step").max = END; $("step").disabled = $("play").disabled = !END;
if (DATA.notes.length) { $("notes").hidden = false; $("notes").replaceChildren(...DATA.notes.map(n => el("div", {}, n))); }
// A model too large to be read at once opens with its modules folded.
if (DATA.items.length > 40) for (const m of modules.values()) if (m.path.length === 1) folded.add(m.key);
scene = buildScene();
showLegend(); showFlow(); showModules(); setStep(END); setView("forward");
