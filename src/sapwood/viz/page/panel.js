// The details of one item, and the gradient flow.
"use strict";
function el(name, text, cls) { const e = document.createElement(name); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; }
function short(x) {
  if (typeof x !== "number") return String(x);
  if (x === 0 || Number.isInteger(x) && Math.abs(x) < 1e6) return String(x);
  const a = Math.abs(x);
  return a >= 1e5 || a < 1e-3 ? x.toExponential(3) : String(+x.toPrecision(5));
}
function bytes(n) { return n < 1024 ? `${n} B` : n < 1048576 ? `${(n / 1024).toFixed(1)} kB` : `${(n / 1048576).toFixed(1)} MB`; }
function nested(values, shape) {
  if (!shape.length) return short(values[0]);
  const inner = shape.slice(1), each = inner.reduce((a, b) => a * b, 1), rows = [];
  for (let k = 0; k < shape[0]; k++) rows.push(nested(values.slice(k * each, (k + 1) * each), inner));
  return "[" + rows.join(inner.length ? ",\n " : ", ") + "]";
}
function rows(list) {
  const dl = el("dl");
  for (const [k, v] of list) if (v !== undefined && v !== "" && v !== null) { dl.append(el("dt", k), el("dd", v)); }
  return dl;
}
function distribution(v, back) {
  const box = el("div");
  if (!v) { box.append(el("p", "none", "quiet")); return box; }
  if (v.whole) box.append(el("pre", nested(v.whole, v.shape)));
  const bad = v.counts && (v.counts.nan || v.counts.inf);
  if (v.counts && !(v.whole && v.whole.length <= 8)) box.append(rows([["range", v.low === undefined ? "" : `${short(v.low)} … ${short(v.high)}`], ["mean ± std", v.mean === undefined ? "" : `${short(v.mean)} ± ${short(v.std)}`], ["norm", v.norm === undefined ? "" : short(v.norm)], ["zeros", v.counts.zero ? `${v.counts.zero} of ${v.counts.all}` : ""]]));
  if (bad) box.append(el("p", `${v.counts.nan} NaN, ${v.counts.inf} infinite of ${v.counts.all}`, "flag"));
  if (v.bins) {
    const h = el("div", undefined, back ? "hist back" : "hist"), most = Math.max(...v.bins);
    h.setAttribute("role", "img"); h.setAttribute("aria-label", `histogram from ${short(v.low)} to ${short(v.high)}`);
    for (const n of v.bins) { const i = el("i"); i.style.height = `${100 * n / most}%`; i.title = n; h.append(i); }
    const ends = el("div", undefined, "ends");
    ends.append(el("span", short(v.low)), el("span", short(v.high)));
    box.append(h, ends);
  }
  return box;
}
function details(i) {
  const p = $("panel");
  p.replaceChildren();
  if (!i) { p.append(el("h3", DATA.title), el("p", `${DATA.items.filter(k => k.kind === "op").length} operations, ${DATA.items.filter(k => k.kind !== "op").length} variables. Choose one to see its value, gradient, formula and line.`, "quiet"), ...DATA.notes.map(n => el("p", n, "flag"))); return; }
  p.append(el("h3", i.title));
  if (i.doc) p.append(el("p", i.doc, "quiet"));
  p.append(rows([["kind", i.kind === "op" ? "operation" : { leaf: "leaf", nonleaf: "non-leaf", root: "root", buffer: "input without gradient", module: "module" }[i.kind] || i.kind], ["node", i.node], ["module", i.scope], ["shape", i.shape ? `(${i.shape.join(", ")})` : ""], ["dtype", i.dtype], ["requires grad", i.requires_grad === undefined ? "" : String(i.requires_grad)], ["saved", i.bytes ? bytes(i.bytes) : ""], ["backward", i.backward_us ? `${i.backward_us} µs` : ""], ["order", i.seq]]));
  if (i.freed) p.append(el("p", "A backward pass has freed what this operation kept.", "flag"));
  if (i.members) { const b = el("button", "Unfold"); b.onclick = () => { folded.delete(i.scope); rebuild(); }; p.append(b); return; }
  if (i.value) p.append(el("h2", "Value"), distribution(i.value));
  if (i.gradient) { p.append(el("h2", i.kind === "op" ? "Gradient that arrives" : "Gradient")); i.gradient.forEach(g => p.append(distribution(g, true))); }
  if (i.formulas && i.formulas.length) { p.append(el("h2", "Derivative")); for (const [name, text] of i.formulas) p.append(el("span", name, "quiet"), el("pre", text)); }
  if (i.gradients) { p.append(el("h2", "Gradients that leave")); i.gradients.forEach((g, k) => g && p.append(el("span", `input ${k + 1}`, "quiet"), distribution(g, true))); }
  if (i.saved && i.saved.length) { p.append(el("h2", "Kept for backward")); i.saved.forEach(s => p.append(el("span", `${s.name}  (${s.shape.join(", ")})  ${bytes(s.bytes)}`, "quiet"), s.value ? distribution(s.value) : "")); }
  if (i.line) {
    p.append(el("h2", "Source"), el("span", `${i.line.file}:${i.line.number} in ${i.line.function}`, "quiet"));
    const pre = el("pre");
    i.line.around.forEach((t, k) => pre.append(el(i.line.first + k === i.line.number ? "b" : "span", `${String(i.line.first + k).padStart(4)}  ${t}`), "\n"));
    p.append(pre);
  }
  if (i.scope && MODULES.has(i.scope)) { const b = el("button", `Fold ${i.scope}`); b.onclick = () => { folded.add(i.scope); rebuild(); }; p.append(b); }
}
function flow() {
  const p = $("flowpanel");
  p.replaceChildren(el("h3", "Gradient flow"), el("p", "Norm of each leaf's gradient, logarithmic, in the order of use. Marked: vanishing (less than a 10⁻⁴ of the median) and exploding (more than 10⁴ of it).", "quiet"));
  const found = DATA.items.filter(i => i.kind === "leaf" && i.gradient && i.gradient[0]).map(i => {
    const g = i.gradient[0], bad = g.counts && (g.counts.nan || g.counts.inf);
    const norm = g.norm !== undefined ? +g.norm : g.whole ? Math.hypot(...g.whole.map(Number)) : NaN;
    return { i, norm: bad ? NaN : norm };
  });
  const sorted = found.map(f => f.norm).filter(n => n > 0).sort((a, b) => a - b), median = sorted[sorted.length >> 1] || 1;
  const logs = sorted.map(Math.log10), low = Math.min(...logs, Math.log10(median) - 2), high = Math.max(...logs, Math.log10(median) + 1);
  for (const { i, norm } of found) {
    const word = Number.isNaN(norm) ? "NaN" : norm === 0 ? "zero" : norm < median * 1e-4 ? "vanishing" : norm > median * 1e4 ? "exploding" : "";
    const row = el("button", undefined, word ? "row bad" : "row"), bar = el("span", undefined, "bar");
    bar.style.width = norm > 0 ? `${4 + 96 * (Math.log10(norm) - low) / (high - low || 1)}%` : "4%";
    row.append(el("span", i.title), bar, el("span", word || short(norm), word ? "flag" : "quiet"));
    row.onclick = () => choose(i.id, true);
    p.append(row);
  }
  if (!found.length) p.append(el("p", "No leaf received a gradient.", "flag"));
}
