// One small chart per parameter: norms, update ratios, or histograms over time.

const layers = [];
const HEALTHY = [1e-4, 1e-2];
const HINTS = {
  gradient: "Euclidean norm of each gradient as the optimizer saw it. Falling towards the first parameters: vanishing. Rising without end: exploding.",
  weight: "Euclidean norm of each parameter after the step.",
  ratio: "Norm of a step divided by the norm of the weights.",
  weights: "Distribution of the weights over time, the newest in front.",
  gradients: "Distribution of the gradients over time, the newest in front.",
};
const WORDS = {gradient: "gradient norm", weight: "weight norm", ratio: "update ratio", weights: "weights", gradients: "gradients"};
const onScreen = new Set();
const watcher = new IntersectionObserver(entries => {
  for (const e of entries) if (e.isIntersecting) onScreen.add(e.target); else onScreen.delete(e.target);
  redraw();
}, {rootMargin: "120px"});

function nameLayers(names, shapes) {
  for (const layer of layers) { watcher.unobserve(layer.element); layer.element.remove(); }
  layers.length = 0;
  names.forEach((name, i) => {
    const layer = {...card(byId("layers"), name, shapes[i].join(" × ") || "scalar"), rows: {weights: [], gradients: []}, curves: {}};
    for (const kind of ["gradient", "weight", "ratio"]) layer.curves[kind] = newCurve();
    layer.element.hidden = true;
    layers.push(layer);
    watcher.observe(layer.element);
  });
}

function takeLayers(curves, histograms) {
  for (const [i, kinds] of Object.entries(curves))
    for (const [kind, news] of Object.entries(kinds)) grow(layers[i].curves[kind], news);
  for (const [i, kinds] of Object.entries(histograms))
    for (const [kind, news] of Object.entries(kinds)) {
      const rows = layers[i].rows;
      rows[kind + "s"] = (news.whole ? [] : rows[kind + "s"]).concat(news.rows);
    }
}

function isSeen(layer) {
  return layer.curves.weight.latest[0] !== null;
}

function filterLayers() {
  const wanted = byId("filter").value.trim().toLowerCase();
  let shown = 0, seen = 0;
  for (const layer of layers) {
    const there = isSeen(layer), match = layer.name.toLowerCase().includes(wanted);
    layer.element.hidden = !(there && match);
    seen += there;
    shown += there && match;
  }
  const empty = byId("no-layers");
  empty.hidden = shown > 0;
  empty.textContent = seen ? "No parameter has this in its name." : "Nothing yet. The first look is taken at the optimizer’s first step.";
}

function showHint() {
  const hint = byId("hint");
  hint.textContent = HINTS[view.kind] + " ";
  if (view.kind === "ratio") hint.append(document.createElement("i"), "Usually healthy: 1e−4 to 1e−2.");
}

function sharedRange(shown) {
  let low = Infinity, high = -Infinity;
  for (const layer of shown) {
    const own = extent(layer.curves[view.kind], true);
    if (own) { low = Math.min(low, own[0]); high = Math.max(high, own[1]); }
  }
  return low > high ? null : [low, high];
}

// The healthy band is always to be seen beside the curves.
function withBand(range) {
  return range && [Math.min(range[0], -5), Math.max(range[1], -1)];
}

function drawLayers() {
  const histogram = view.kind.endsWith("s"), ratio = view.kind === "ratio";
  const shown = layers.filter(layer => !layer.element.hidden);
  let range = !histogram && view.shared ? sharedRange(shown) : null;
  for (const layer of shown) {
    if (!onScreen.has(layer.element)) continue;
    if (histogram) { drawRidges(layer, layer.rows[view.kind], view.kind); continue; }
    const curve = layer.curve = layer.curves[view.kind];
    // A gradient that never came is no failure.
    curve.unset = view.kind === "gradient" && curve.mean.every(x => x === null) && !alarmed.has(layer.name);
    const read = reading(curve);
    tell(layer, read, cross === null || read.step === null ? "" : "step " + count(read.step));
    layer.value.classList.toggle("off", ratio && read.value !== null && (read.value < HEALTHY[0] || read.value > HEALTHY[1]));
    let own = range || extent(curve, true);
    if (ratio) own = withBand(own);
    draw(layer.canvas, curve, {log: true, range: own && widened(own, 1), band: ratio ? HEALTHY : null, small: true});
    layer.canvas.setAttribute("aria-label", `${layer.name}, ${WORDS[view.kind]}: ${figure(curve.latest[1])}`);
  }
  for (const layer of layers) layer.element.classList.toggle("alarmed", alarmed.has(layer.name));
}
