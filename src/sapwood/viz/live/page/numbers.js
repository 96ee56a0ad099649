// Numbers, times and scales as people read them.

function figure(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  const a = Math.abs(x);
  if (a === 0) return "0";
  if (a >= 1e5 || a < 1e-3) return x.toExponential(2).replace(/\.?0*e\+?/, "e").replaceAll("-", "−");
  return String(Number(x.toPrecision(4))).replace("-", "−");
}

function count(n) {
  return Math.round(n).toLocaleString("en-US");
}

function brief(n) {
  if (n >= 1e6) return Number((n / 1e6).toPrecision(3)) + "M";
  if (n >= 1e4) return Number((n / 1e3).toPrecision(3)) + "k";
  return count(n);
}

function duration(seconds) {
  if (seconds < 1) return "under 1 s";
  if (seconds < 60) return Math.round(seconds) + " s";
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return minutes + " min " + String(Math.floor(seconds % 60)).padStart(2, "0") + " s";
  if (minutes < 2880) return Math.floor(minutes / 60) + " h " + String(minutes % 60).padStart(2, "0") + " min";
  return Math.floor(minutes / 1440) + " days";
}

// Round positions between two ends, about so many.
function ticks(low, high, about) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / about, ten = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * ten).find(s => s >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + span * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

// Whole powers of ten between two logarithms; where there is none or one, round numbers instead.
function decades(low, high, about) {
  const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9), every = Math.max(1, Math.ceil((last - first + 1) / about));
  if (last - first < 1) return ticks(10 ** low, 10 ** high, about).filter(x => x > 0).map(Math.log10);
  const found = [];
  for (let k = Math.ceil(first / every) * every; k <= last; k += every) found.push(k);
  return found;
}

function powerLabel(e) {
  if (!Number.isInteger(e)) return figure(10 ** e);
  return e >= -3 && e <= 4 ? figure(10 ** e) : "1e" + String(e).replace("-", "−");
}
