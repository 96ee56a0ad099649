// Controls.
"use strict";
function choose(id, move) {
  chosen = id;
  const item = scene.items.find(i => i.id === id) || null;
  details(typeof id === "number" ? { ...DATA.items[id] } : item);
  if (move) centre(item); else draw();
}
function search(text) {
  hits = new Set();
  const wanted = text.trim().toLowerCase();
  if (wanted) for (const i of scene.items) {
    const all = [i.title, i.node, i.scope, i.op, i.shape && `(${i.shape.join(", ")})`, i.line && `${i.line.file}:${i.line.number}`].join(" ").toLowerCase();
    if (all.includes(wanted)) hits.add(i.id);
  }
  $("hits").textContent = wanted ? `${hits.size} found` : "";
  draw();
}
function nextHit() { const all = [...hits]; if (all.length) choose(all[(all.indexOf(chosen) + 1) % all.length], true); }
function setView(name) {
  view = name;
  document.querySelectorAll("[data-view]").forEach(b => b.setAttribute("aria-pressed", b.dataset.view === name));
  fit();
}
function foldAll() { folded.clear(); for (const path of MODULES.keys()) if (!path.includes(".")) folded.add(path); rebuild(); }
function move(key) {
  const now = scene.items.findIndex(i => i.id === chosen);
  if (now < 0) return scene.items.length && choose(scene.items[scene.items.length - 1].id, true);
  const on = SIDEWAYS ? "ArrowRight" : "ArrowDown", back = SIDEWAYS ? "ArrowLeft" : "ArrowUp", a = scene.items[now];
  let options;
  if (key === on) options = scene.links.filter(l => l.source === now).map(l => l.target);
  else if (key === back) options = scene.links.filter(l => l.target === now).map(l => l.source);
  else {
    const side = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1, across = i => SIDEWAYS ? i.y : i.x, along = i => SIDEWAYS ? i.x : i.y;
    options = scene.items.map((_, k) => k).filter(k => side * (across(scene.items[k]) - across(a)) > 1 && Math.abs(along(scene.items[k]) - along(a)) < 60)
      .sort((p, q) => Math.abs(across(scene.items[p]) - across(a)) - Math.abs(across(scene.items[q]) - across(a)));
  }
  if (options.length) choose(scene.items[options[0]].id, true);
}
function standalone() {
  const e = extent(), style = getComputedStyle(document.documentElement);
  const before = [scale, dx, dy], w = stage.clientWidth, h = stage.clientHeight;
  scale = 1; dx = 0; dy = 0;
  Object.defineProperty(stage, "clientWidth", { value: e.w, configurable: true });
  Object.defineProperty(stage, "clientHeight", { value: e.h, configurable: true });
  paint();
  const css = document.querySelector("style").textContent.replace(/var\((--[\w-]+)\)/g, (_, n) => style.getPropertyValue(n));
  const inner = world.innerHTML;
  delete stage.clientWidth; delete stage.clientHeight;
  [scale, dx, dy] = before;
  paint();
  void w; void h;
  return `<svg xmlns="${NS}" width="${e.w}" height="${e.h}" viewBox="0 0 ${e.w} ${e.h}"><style>${css.replace(/[<&]/g, c => c === "<" ? "&lt;" : "&amp;")}</style><rect width="100%" height="100%" fill="${style.getPropertyValue("--ground")}"/><g id="world">${inner}</g></svg>`;
}
function download(name, url) { const a = el("a"); a.href = url; a.download = name; document.body.append(a); a.click(); a.remove(); window.lastDownload = name; }
function saveSvg() { const url = URL.createObjectURL(new Blob([standalone()], { type: "image/svg+xml" })); download("graph.svg", url); setTimeout(() => URL.revokeObjectURL(url), 5000); }
function savePng() {
  const e = extent(), most = Math.min(2, 8000 / Math.max(e.w, e.h)), image = new Image();
  image.onload = () => {
    const c = el("canvas");
    c.width = e.w * most; c.height = e.h * most;
    c.getContext("2d").drawImage(image, 0, 0, c.width, c.height);
    c.toBlob(b => { const url = URL.createObjectURL(b); download("graph.png", url); setTimeout(() => URL.revokeObjectURL(url), 5000); });
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(standalone());
}
function theme(name) { document.documentElement.dataset.theme = name; }
function begin() {
  theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  $("title").textContent = DATA.title;
  $("slider").max = LAST;
  const words = { leaf: "leaf", parameter: "parameter", nonleaf: "non-leaf", root: "root", buffer: "input", op: "operation" };
  const kinds = new Set(DATA.items.map(i => i.kind === "leaf" && i.parameter ? "parameter" : i.kind));
  for (const k in words) if (kinds.has(k)) {
    const li = el("li"), dot = el("i", undefined, k), name = k === "parameter" ? "param" : k;
    dot.style.background = `var(--${name})`; dot.style.borderColor = `var(--${name}-line)`;
    li.append(dot, words[k]); $("legend").append(li);
  }
  document.querySelectorAll("[data-view]").forEach(b => b.onclick = () => setView(b.dataset.view));
  $("fold").onclick = foldAll; $("unfold").onclick = () => { folded.clear(); rebuild(); };
  $("fold").disabled = $("unfold").disabled = !MODULES.size;
  $("search").oninput = e => search(e.target.value);
  $("search").onkeydown = e => { if (e.key === "Enter") nextHit(); if (e.key === "Escape") { e.target.value = ""; search(""); stage.focus(); } e.stopPropagation(); };
  $("in").onclick = () => zoom(1.3); $("out").onclick = () => zoom(1 / 1.3); $("fit").onclick = fit;
  $("svg").onclick = saveSvg; $("png").onclick = savePng;
  $("theme").onclick = () => { theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); draw(); };
  $("help").onclick = () => $("keys").showModal();
  $("flow").onclick = () => { const on = $("flowpanel").hidden; $("flowpanel").hidden = !on; $("panel").hidden = on; $("flow").setAttribute("aria-pressed", on); if (on) flow(); };
  $("slider").oninput = e => go(+e.target.value);
  $("play").onclick = play; $("next").onclick = () => go(step + 1); $("back").onclick = () => go(step - 1);
  let drag = null;
  stage.onpointerdown = e => { drag = { x: e.clientX, y: e.clientY, moved: false }; };
  stage.onpointermove = e => {
    if (!drag || !e.buttons) { drag = null; return; }
    if (!drag.moved && Math.hypot(e.clientX - drag.x, e.clientY - drag.y) < 4) return;
    drag.moved = true; stage.classList.add("drag");
    dx += e.clientX - drag.x; dy += e.clientY - drag.y; drag.x = e.clientX; drag.y = e.clientY;
    draw();
  };
  stage.onpointerup = e => {
    stage.classList.remove("drag");
    if (drag && !drag.moved) {
      const g = e.target.closest && e.target.closest("[data-id]"), id = g && g.dataset.id;
      choose(id ? (id.startsWith("m:") ? id : +id) : null);
    }
    drag = null;
  };
  stage.ondblclick = e => { const g = e.target.closest("[data-id]"); if (g && g.dataset.id.startsWith("m:")) { folded.delete(g.dataset.id.slice(2)); rebuild(); } };
  stage.addEventListener("wheel", e => { e.preventDefault(); const r = stage.getBoundingClientRect(); zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - r.left, e.clientY - r.top); }, { passive: false });
  document.onkeydown = e => {
    if (e.ctrlKey || e.metaKey || e.altKey || $("keys").open) return;
    const own = e.target.tagName === "INPUT";
    if (e.key === "/") { e.preventDefault(); $("search").focus(); }
    else if (e.key.startsWith("Arrow") && !own) { e.preventDefault(); move(e.key); }
    else if (e.key === "f") fit(); else if (e.key === "+" || e.key === "=") zoom(1.3); else if (e.key === "-") zoom(1 / 1.3);
    else if (e.key === " " && e.target.tagName !== "BUTTON") { e.preventDefault(); play(); }
    else if (e.key === ".") go(step + 1); else if (e.key === ",") go(step - 1);
    else if (e.key === "?") $("keys").showModal();
    else if (e.key === "m") { const i = scene.items.find(k => k.id === chosen); if (i && i.scope) { if (folded.has(i.scope)) folded.delete(i.scope); else folded.add(i.scope); rebuild(); } }
    else if (e.key === "Escape") { hits = new Set(); $("search").value = ""; $("hits").textContent = ""; choose(null); go(0); }
  };
  new ResizeObserver(draw).observe(stage);
  details(null); go(0); rebuild(true); start();
}
begin();
