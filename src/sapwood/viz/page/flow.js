// How large the gradient of every parameter is, from the inputs to the loss.
const limits = {vanish: 1e-7, explode: 1e3};

function median(values) {
  const v = values.filter(x => x > 0).sort((a, b) => a - b);
  return v.length ? v[v.length >> 1] : 0;
}
function verdict(p, middle) {
  if (p.nan) return "nan";
  if (p.norm === 0 || p.norm < limits.vanish * middle) return "vanishing";
  return p.norm > limits.explode * middle ? "exploding" : "";
}
function showFlow() {
  const panel = document.getElementById("flow"), all = DATA.parameters, list = el("div", {id: "bars"});
  panel.replaceChildren(el("h2", {}, "Gradient flow"), el("p", {class: "sub"}, "Norm of every parameter's gradient, log scale, from the inputs down to the loss."));
  if (!all.length) { panel.append(el("p", {class: "sub"}, "No gradients are known.")); return; }
  const field = (id, text, key) => {
    const input = el("input", {id, type: "text", inputmode: "decimal", value: String(limits[key])});
    input.addEventListener("input", () => { const v = Number(input.value); if (v > 0 && Number.isFinite(v)) { limits[key] = v; fill(); } });
    return [el("label", {for: id}, text), input];
  };
  panel.append(el("div", {class: "limits"}, ...field("vanish", "Vanishing below median ×", "vanish"), ...field("explode", "Exploding above median ×", "explode")));
  const summary = el("p", {class: "sub", id: "verdict", "aria-live": "polite"});
  panel.append(summary, list);
  function fill() {
    const middle = median(all.map(p => p.norm)), logs = all.filter(p => p.norm > 0).map(p => Math.log10(p.norm));
    const low = Math.floor(Math.min(...logs, 0)) - 1, high = Math.max(Math.ceil(Math.max(...logs, 0)), low + 2), counts = {};
    list.replaceChildren();
    for (const p of all) {
      const word = verdict(p, middle), share = p.norm > 0 ? Math.max(0, Math.min(1, (Math.log10(p.norm) - low) / (high - low))) : 0;
      counts[word] = (counts[word] || 0) + 1;
      const svg = svgEl("svg", {viewBox: "0 0 300 6", preserveAspectRatio: "none", "aria-hidden": "true"});
      svg.append(svgEl("rect", {class: "track", width: 300, height: 6, rx: 3}), svgEl("rect", {class: "fill", width: 300 * share, height: 6, rx: 3}));
      const text = {nan: "NaN or infinite", vanishing: p.norm ? "vanishing" : "zero", exploding: "exploding"}[word];
      const bar = el("button", {class: "bar " + word, title: p.name}, el("span", {class: "name"}, p.name), el("span", {class: "num"}, p.norm ? p.norm.toExponential(1) : "0"), svg, text ? el("span", {class: "flag"}, text) : null);
      bar.addEventListener("click", () => reveal(p.item));
      list.append(bar);
    }
    const told = ["vanishing", "exploding", "nan"].filter(w => counts[w]).map(w => `${counts[w]} ${w === "nan" ? "with NaN or infinity" : w}`);
    summary.textContent = told.length ? told.join(", ") + ` of ${all.length}` : `All ${all.length} within the limits`;
  }
  fill();
}
