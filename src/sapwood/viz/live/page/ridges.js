// Histograms over time: one ridge each, the oldest at the back.

const BACK = 0.55;

function drawRidges(layer, rows, kind) {
  const canvas = layer.canvas, {g, width, height} = surface(canvas);
  canvas.plot = null;
  layer.value.classList.remove("bad", "off");
  const last = rows[rows.length - 1];
  layer.value.textContent = last ? "step " + count(last.step) : "";
  canvas.setAttribute("aria-label", last
    ? `${layer.name}, ${WORDS[kind]} at step ${count(last.step)}: from ${figure(last.low)} to ${figure(last.high)}`
    : `${layer.name}, ${WORDS[kind]}: none yet`);
  if (!last) {
    g.fillStyle = colors.soft;
    g.textAlign = "center";
    g.fillText("no histogram yet", width / 2, height / 2);
    return;
  }
  let low = Math.min(...rows.map(r => r.low)), high = Math.max(...rows.map(r => r.high));
  if (!(high > low)) { low -= Math.abs(low) * 0.5 || 0.5; high += Math.abs(high) * 0.5 || 0.5; }
  const left = 8, right = width - 8, bottom = height - 20, top = 10, back = (bottom - top) * BACK;
  const tall = bottom - top - back, X = v => left + (v - low) / (high - low) * (right - left);
  g.fillStyle = colors.soft;
  g.textAlign = "center";
  for (const t of ticks(low, high, 3)) {
    const text = figure(t), half = g.measureText(text).width / 2, x = Math.max(left + half, Math.min(X(t), right - half));
    g.fillText(text, x, height - 4);
    g.strokeStyle = colors.grid;
    g.beginPath(); g.moveTo(X(t), top); g.lineTo(X(t), bottom); g.stroke();
  }
  const color = kind === "gradients" ? colors.grad : colors.series;
  rows.forEach((row, k) => {
    const base = rows.length > 1 ? bottom - back + back * k / (rows.length - 1) : bottom, front = rows.length > 1 ? k / (rows.length - 1) : 1;
    const bin = (row.high - row.low) / row.counts.length, most = Math.max(...row.counts) || 1;
    // A constant tensor is a spike as wide as a bin of the whole picture.
    const wide = bin > 0 ? bin : (high - low) / row.counts.length, from = bin > 0 ? row.low : row.low - wide * row.counts.findIndex(n => n) - wide / 2;
    g.beginPath();
    g.moveTo(X(from), base);
    row.counts.forEach((n, i) => g.lineTo(X(from + (i + 0.5) * wide), base - n / most * tall));
    g.lineTo(X(from + row.counts.length * wide), base);
    g.globalAlpha = 0.82;
    g.fillStyle = colors.panel;
    g.fill();
    g.globalAlpha = 0.08 + 0.3 * front ** 2;
    g.fillStyle = color;
    g.fill();
    g.globalAlpha = 0.25 + 0.75 * front ** 1.5;
    g.strokeStyle = row.odd ? colors.bad : color;
    g.lineWidth = k === rows.length - 1 ? 1.6 : 0.9;
    g.stroke();
    g.globalAlpha = 1;
    g.lineWidth = 1;
  });
}
