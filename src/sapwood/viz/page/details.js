// The panel about one node.
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) if (v !== null && v !== undefined) e.setAttribute(k, v);
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}
function svgEl(tag, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  return e;
}
const number = v => typeof v !== "number" ? String(v) : Number.isInteger(v) && Math.abs(v) < 1e7 ? String(v) : String(Number(v.toPrecision(5)));
const nested = v => Array.isArray(v) ? "[" + v.map(nested).join(", ") + "]" : number(v);
// Rows of a matrix go on lines of their own.
const written = (v, pad = "") => Array.isArray(v) && Array.isArray(v[0])
  ? "[" + v.map((r, i) => (i ? pad + " " : "") + written(r, pad + " ")).join(",\n") + "]" : nested(v);
const bytes = b => b < 1000 ? b + " B" : b < 1e6 ? (b / 1e3).toFixed(1) + " kB" : (b / 1e6).toFixed(1) + " MB";
const time = ns => ns < 1e6 ? (ns / 1e3).toFixed(1) + " µs" : (ns / 1e6).toFixed(2) + " ms";

function tensorView(label, s, cls) {
  const box = el("div", {class: "tensor " + (cls || "")});
  if (!s) { box.append(el("div", {class: "head"}, el("b", {}, label), el("span", {}, "none"))); return box; }
  box.append(el("div", {class: "head"}, label ? el("b", {}, label) : null, el("span", {}, `${s.shape} ${s.dtype}`)));
  if (s.nan || s.inf) box.append(el("div", {class: "warn"}, [s.nan && `${s.nan} NaN`, s.inf && `${s.inf} infinite`].filter(Boolean).join(", ")));
  if (s.values !== undefined) box.append(el("pre", {}, written(s.values)));
  else if (s.min !== undefined) {
    if (s.bins) {
      const most = Math.max(...s.bins), h = svgEl("svg", {class: "hist", viewBox: "0 0 320 54", preserveAspectRatio: "none", role: "img",
        "aria-label": `Histogram from ${number(s.min)} to ${number(s.max)}`});
      s.bins.forEach((b, i) => { const high = b ? Math.max(1.5, 52 * b / most) : 0; h.append(svgEl("rect", {x: i * 10, y: 54 - high, width: 9, height: high})); });
      box.append(h);
    }
    box.append(el("div", {class: "ends"}, el("span", {}, number(s.min)), el("span", {}, number(s.max))));
    box.append(facts([["mean", number(s.mean)], ["std", number(s.std)], ["norm", number(s.norm)], ["zeros", `${s.zero} of ${s.size}`]]));
  } else if (s.norm !== undefined) box.append(facts([["norm", number(s.norm)]]));
  return box;
}
function facts(rows) {
  const list = el("dl", {class: "facts"});
  for (const [k, v] of rows) if (v !== undefined && v !== "" && v !== null) list.append(el("dt", {}, k), el("dd", {}, v));
  return list;
}

function showDetails(n, at) {
  const panel = document.getElementById("node");
  panel.replaceChildren();
  if (!n) {
    panel.append(el("h2", {}, "Nothing selected"), el("p", {class: "sub"}, "Click a node, or follow the links with the arrow keys. Press ? for all keys."),
      facts([["variables", DATA.items.filter(i => i.kind !== "op").length], ["operations", DATA.items.filter(i => i.kind === "op").length],
        ["saved", bytes(DATA.details.reduce((a, d) => a + (d.bytes || 0), 0))],
        ["backward", time(DATA.details.reduce((a, d) => a + (d.time || 0), 0))]]));
    return;
  }
  if (n.group !== null) {
    const all = n.items.map(i => DATA.details[i]), open = el("button", {id: "unfold-this"}, "Unfold");
    open.addEventListener("click", () => fold(n.group, false));
    panel.append(el("h2", {}, modules.get(n.group).path.join(".")), el("p", {class: "sub"}, runs ? "run of operations, folded" : "module, folded"), el("div", {class: "row"}, open),
      facts([["items", n.items.length], ["saved", bytes(all.reduce((a, d) => a + (d.bytes || 0), 0))], ["backward", time(all.reduce((a, d) => a + (d.time || 0), 0))]]));
    return;
  }
  const i = n.items[0], d = DATA.details[i], known = x => DATA.live[i] === null || x;
  const words = {leaf: "leaf", nonleaf: "intermediate result", root: "root", buffer: "no gradient", op: "operation", saved: "saved", base: "base of a view"};
  panel.append(el("h2", {}, n.title), el("p", {class: "sub"}, [d.name || words[n.kind], (d.scope || []).join(".")].filter(Boolean).join(" · ")));
  panel.append(facts([["shape", d.shape], ["dtype", d.dtype], ["saved", d.bytes === undefined ? undefined : bytes(d.bytes)],
    ["forward", d.forward_time === undefined ? undefined : time(d.forward_time)], ["backward", d.time === undefined ? undefined : time(d.time)],
    ["number", d.seq]]));
  if (d.value && known(isBorn(i, at))) panel.append(el("h3", {}, "Value"), tensorView("", d.value));
  const arrived = hasArrived(i, at);
  if (d.gradient && arrived) panel.append(el("h3", {}, "Gradient"), tensorView("", d.gradient, "grad"));
  if (d.gradient_in && arrived) { panel.append(el("h3", {}, "Gradient that arrives")); d.gradient_in.forEach((g, k) => panel.append(tensorView(d.gradient_in.length > 1 ? `output ${k}` : "", g, "grad"))); }
  if (d.gradient_out && hasRun(i, at)) { panel.append(el("h3", {}, "Gradients that leave")); d.gradient_out.forEach((g, k) => panel.append(tensorView(`input ${k}`, g, "grad"))); }
  if (d.formula && d.formula.length) panel.append(el("h3", {}, "Derivative"), el("pre", {}, d.formula.join("\n")));
  if (d.saved && d.saved.length && known(isBorn(i, at))) { panel.append(el("h3", {}, "Saved for backward")); for (const s of d.saved) panel.append(tensorView(s.name, s)); }
  if (d.code && d.code.length) {
    const pre = el("pre", {});
    for (const [line, text] of d.code) pre.append(el("span", {class: line === d.line ? "here" : ""}, el("span", {class: "nr"}, String(line).padStart(4) + "  "), text), "\n");
    panel.append(el("h3", {}, `${d.file}:${d.line}`), pre);
  }
}
