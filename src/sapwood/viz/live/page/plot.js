// Curves on a canvas: one function that draws, one object per chart that knows where the pointer is.

const colors = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["panel", "ink", "soft", "line", "grid", "accent", "bad", "cool", "band", "series", "grad"])
    colors[name] = style.getPropertyValue("--" + name).trim();
}

// Where all charts are read: a step, or null for the latest.
let cross = null;

function newCurve() {
  return {steps: [], mean: [], low: [], high: [], latest: [null, null]};
}

function grow(curve, news) {
  if (news.whole) for (const key of ["steps", "mean", "low", "high"]) curve[key] = [];
  for (const key of ["steps", "mean", "low", "high"]) for (const x of news[key]) curve[key].push(x);
  curve.latest = news.latest;
  curve.smooth = null;
}

// Exponential moving average that starts unbiased; gaps stay gaps.
function smoothed(curve, weight) {
  if (!weight) return curve.mean;
  if (curve.smooth && curve.smooth.weight === weight) return curve.smooth.values;
  let sum = 0, mass = 0;
  const values = curve.mean.map(x => {
    if (x === null) return null;
    sum = weight * sum + (1 - weight) * x;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
  curve.smooth = {weight, values};
  return values;
}

function nearest(steps, step) {
  let low = 0, high = steps.length;
  while (low < high) { const middle = (low + high) >> 1; if (steps[middle] < step) low = middle + 1; else high = middle; }
  if (low === steps.length) return low - 1;
  return low > 0 && step - steps[low - 1] < steps[low] - step ? low - 1 : low;
}

// What a chart says: the value at the step where charts are read, else the latest.
function reading(curve) {
  if (cross === null || !curve.steps.length) return {step: curve.latest[0], value: curve.latest[1]};
  const i = nearest(curve.steps, cross);
  return {step: curve.steps[i], value: curve.mean[i]};
}

// Least and greatest of a curve, as logarithms if asked; null where nothing can be drawn.
function extent(curve, log) {
  let low = Infinity, high = -Infinity;
  const take = x => { if (x !== null && (!log || x > 0)) { low = Math.min(low, x); high = Math.max(high, x); } };
  for (const key of ["low", "high", "mean"]) curve[key].forEach(take);
  take(curve.latest[1]);
  if (low > high) return null;
  return log ? [Math.log10(low), Math.log10(high)] : [low, high];
}

function widened([low, high], least) {
  const room = Math.max((high - low) * 0.06, high - low < least ? (least - (high - low)) / 2 : 0) || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

function surface(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
  g.lineJoin = "round";
  return {g, width, height};
}

// options: log, weight (smoothing), range [low, high] (in logarithms if log), band [low, high] (values), small
function draw(canvas, curve, options) {
  const {g, width, height} = surface(canvas), {log, weight, band, small} = options;
  const own = extent(curve, log), range = options.range || (own && widened(own, log ? 0.25 : 0));
  const bottom = height - (small ? 15 : 20), top = 6;
  if (!range || !curve.steps.length && curve.latest[0] === null) { canvas.plot = null; quiet(g, width, height, curve); return; }
  const [low, high] = range, marks = (log ? decades : ticks)(low, high, small ? 3 : 5).filter(m => m >= low && m <= high);
  const labels = marks.map(m => log ? powerLabel(m) : figure(m));
  const left = Math.ceil(Math.max(...labels.map(t => g.measureText(t).width), 18)) + 8, right = width - 6;
  const first = curve.steps.length ? curve.steps[0] : curve.latest[0], last = Math.max(curve.latest[0], first + 1);
  const X = s => left + (s - first) / (last - first) * (right - left);
  const Y = v => bottom - ((log ? Math.log10(v) : v) - low) / (high - low) * (bottom - top);
  const shown = v => v !== null && (!log || v > 0);
  canvas.plot = {left, right, first, last, curve};
  if (band) {
    const from = Math.max(top, Math.min(bottom, Y(band[1]))), to = Math.max(top, Math.min(bottom, Y(band[0])));
    g.fillStyle = colors.band;
    g.fillRect(left, from, right - left, to - from);
  }
  g.textBaseline = "middle";
  g.textAlign = "right";
  marks.forEach((m, k) => {
    const y = Math.round(bottom - (m - low) / (high - low) * (bottom - top)) + 0.5;
    g.strokeStyle = band ? colors.line : colors.grid;
    g.beginPath(); g.moveTo(left, y); g.lineTo(right, y); g.stroke();
    g.fillStyle = colors.soft;
    g.fillText(labels[k], left - 6, Math.max(6, Math.min(y, bottom - 2)));
  });
  g.textBaseline = "alphabetic";
  let free = -Infinity;
  for (const s of ticks(first, last, small ? 3 : 6).filter(Number.isInteger)) {
    const text = brief(s), half = g.measureText(text).width / 2, x = Math.max(left + half, Math.min(X(s), right - half));
    if (x - half < free) continue;
    g.textAlign = "center";
    g.fillText(text, x, height - 3);
    free = x + half + 14;
  }
  g.save();
  g.beginPath(); g.rect(left, top - 3, right - left + 3, bottom - top + 6); g.clip();
  gaps(g, curve, X, left, right, top, bottom);
  if (!weight) spread(g, curve, X, Y, shown);
  if (weight) line(g, curve, curve.mean, X, Y, shown, 1, 0.28, false);
  line(g, curve, smoothed(curve, weight), X, Y, shown, small ? 1.4 : 1.8, 1, !weight);
  g.restore();
  if (cross !== null && curve.steps.length) {
    const i = nearest(curve.steps, cross), x = X(curve.steps[i]);
    g.strokeStyle = colors.soft;
    g.globalAlpha = 0.6;
    g.beginPath(); g.moveTo(x, top); g.lineTo(x, bottom); g.stroke();
    g.globalAlpha = 1;
    const v = smoothed(curve, weight)[i];
    if (shown(v)) { g.fillStyle = colors.series; g.beginPath(); g.arc(x, Y(v), 3, 0, 7); g.fill(); }
  }
}

function quiet(g, width, height, curve) {
  g.fillStyle = curve.latest[0] === null ? colors.soft : colors.bad;
  g.textAlign = "center";
  g.fillText(curve.latest[0] === null ? "no gradient seen" : curve.mean.some(x => x !== null) ? "zero" : "not finite, or none", width / 2, height / 2);
}

function spread(g, curve, X, Y, shown) {
  g.fillStyle = colors.series;
  g.globalAlpha = 0.14;
  for (let i = 0; i < curve.steps.length;) {
    while (i < curve.steps.length && !(shown(curve.low[i]) && shown(curve.high[i]))) i++;
    let end = i;
    while (end < curve.steps.length && shown(curve.low[end]) && shown(curve.high[end])) end++;
    if (end === i) break;
    g.beginPath();
    for (let k = i; k < end; k++) g.lineTo(X(curve.steps[k]), Y(curve.high[k]));
    for (let k = end - 1; k >= i; k--) g.lineTo(X(curve.steps[k]), Y(curve.low[k]));
    g.fill();
    i = end;
  }
  g.globalAlpha = 1;
}

function line(g, curve, values, X, Y, shown, thickness, alpha, latest) {
  g.strokeStyle = g.fillStyle = colors.series;
  g.lineWidth = thickness;
  g.globalAlpha = alpha;
  g.beginPath();
  let pen = false, alone = null;
  const dot = () => { if (alone) { g.moveTo(alone[0] + 1.5, alone[1]); g.arc(alone[0], alone[1], 1.5, 0, 7); } alone = null; };
  const add = (s, v) => {
    if (!shown(v)) { dot(); pen = false; return; }
    const x = X(s), y = Y(v);
    if (pen) { if (alone) g.moveTo(alone[0], alone[1]); g.lineTo(x, y); alone = null; } else { alone = [x, y]; pen = true; }
  };
  curve.steps.forEach((s, i) => add(s, values[i]));
  if (latest) add(curve.latest[0], curve.latest[1]);
  dot();
  g.stroke();
  g.lineWidth = 1;
  g.globalAlpha = 1;
}

// Stretches where the values were not finite.
function gaps(g, curve, X, left, right, top, bottom) {
  if (!curve.unset) {
    let begin = null;
    const mark = (from, to) => {
      g.fillStyle = colors.bad;
      g.globalAlpha = 0.12;
      g.fillRect(from, top, Math.max(2, to - from), bottom - top);
      g.globalAlpha = 1;
    };
    curve.steps.forEach((s, i) => {
      if (curve.mean[i] === null) { if (begin === null) begin = X(s); }
      else if (begin !== null) { mark(begin, X(s)); begin = null; }
    });
    if (begin === null && curve.latest[1] === null && curve.latest[0] !== null) begin = X(curve.latest[0]) - 2;
    if (begin !== null) mark(begin, right);
  }
}

function followPointer(canvas) {
  canvas.addEventListener("pointermove", event => {
    const p = canvas.plot;
    if (!p) return;
    const x = event.clientX - canvas.getBoundingClientRect().left;
    readAt(p.first + Math.max(0, Math.min(1, (x - p.left) / (p.right - p.left))) * (p.last - p.first));
  });
  canvas.addEventListener("pointerleave", () => readAt(null));
  canvas.addEventListener("keydown", event => {
    const p = canvas.plot, way = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!p || !way || !p.curve.steps.length) return;
    event.preventDefault();
    const steps = p.curve.steps, i = cross === null ? steps.length : nearest(steps, cross);
    readAt(steps[Math.max(0, Math.min(steps.length - 1, i + way))]);
    const read = reading(p.curve);
    say(`${canvas.dataset.name}: ${read.value === null ? "not finite" : figure(read.value)} at step ${count(read.step)}`);
  });
  canvas.addEventListener("blur", () => readAt(null));
}
