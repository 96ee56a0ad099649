// Painting, on a canvas or as SVG text: both pens understand path, box and text.
const FONT = 'system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif';
const PALETTES = {
  light: {bg: "#fafaf8", ink: "#1f2933", soft: "#66727f", link: "#9aa5a0", grad: "#b85c1e", select: "#2f6f5e", hit: "#c79a1b",
    leaf: ["#e1ecf7", "#3f74b5"], nonleaf: ["#f7eed6", "#b08423"], root: ["#dfefe3", "#3b8755"], buffer: ["#f0f1ee", "#88918c"],
    saved: ["#f9e8da", "#b8703a"], base: ["#e0f0e4", "#3b8755"], op: ["#ffffff", "#7d8985"], group: ["#e9eef0", "#5b7280"]},
  dark: {bg: "#14181a", ink: "#e4e8e6", soft: "#94a09d", link: "#5c6865", grad: "#e59a5f", select: "#7cc4ae", hit: "#e0b94a",
    leaf: ["#1d2c3f", "#6f9fdb"], nonleaf: ["#332b18", "#d3aa50"], root: ["#1b3325", "#68b684"], buffer: ["#23292b", "#7c8783"],
    saved: ["#35261a", "#d58f58"], base: ["#1b3325", "#68b684"], op: ["#1f2528", "#84918d"], group: ["#263036", "#8aa2b0"]},
};
const palette = () => PALETTES[document.documentElement.dataset.theme];

class CanvasPen {
  constructor(context) { this.c = context; }
  alpha(a) { this.c.globalAlpha = a; }
  path(p, colour, width) {
    const c = this.c;
    c.beginPath(); c.moveTo(p[0][0], p[0][1]);
    for (let i = 1; i < p.length; i++) {
      const [x, y] = p[i], [a, b] = p[i - 1];
      if (i % 2) c.lineTo(x, y); else c.bezierCurveTo(a, (b + y) / 2, x, (b + y) / 2, x, y);
    }
    c.strokeStyle = colour; c.lineWidth = width; c.stroke();
  }
  head(x, y, down, colour) {
    const c = this.c, d = down ? -8 : 8;
    c.beginPath(); c.moveTo(x, y); c.lineTo(x - 4, y + d); c.lineTo(x + 4, y + d); c.closePath();
    c.fillStyle = colour; c.fill();
  }
  box(x, y, w, h, r, fill, stroke, width, dash) {
    const c = this.c;
    c.beginPath(); c.roundRect(x - w / 2, y - h / 2, w, h, Math.min(r, w / 2, h / 2));
    if (fill) { c.fillStyle = fill; c.fill(); }
    c.setLineDash(dash ? [4, 3] : []); c.strokeStyle = stroke; c.lineWidth = width; c.stroke(); c.setLineDash([]);
  }
  text(x, y, text, size, weight, colour, most) {
    const c = this.c;
    c.font = `${weight} ${size}px ${FONT}`; c.textAlign = "center"; c.textBaseline = "middle"; c.fillStyle = colour; c.fillText(text, x, y, most);
  }
}

const escapeXml = s => String(s).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
  .replace(/[&<>"']/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}[c]));

class SvgPen {
  constructor() { this.out = []; this.a = 1; }
  alpha(a) { this.a = a; }
  add(tag, attributes, text) {
    if (this.a !== 1) attributes.opacity = this.a;
    const list = Object.entries(attributes).map(([k, v]) => ` ${k}="${escapeXml(typeof v === "number" ? Math.round(v * 10) / 10 : v)}"`).join("");
    this.out.push(`<${tag}${list}${text === undefined ? "/>" : `>${escapeXml(text)}</${tag}>`}`);
  }
  path(p, colour, width) {
    const n = v => Math.round(v * 10) / 10;
    let d = `M${n(p[0][0])} ${n(p[0][1])}`;
    for (let i = 1; i < p.length; i++) {
      const [x, y] = p[i], [a, b] = p[i - 1], m = n((b + y) / 2);
      d += i % 2 ? `L${n(x)} ${n(y)}` : `C${n(a)} ${m} ${n(x)} ${m} ${n(x)} ${n(y)}`;
    }
    this.add("path", {d, fill: "none", stroke: colour, "stroke-width": width});
  }
  head(x, y, down, colour) {
    const d = down ? -8 : 8;
    this.add("path", {d: `M${x} ${y}L${x - 4} ${y + d}L${x + 4} ${y + d}Z`, fill: colour});
  }
  box(x, y, w, h, r, fill, stroke, width, dash) {
    const a = {x: x - w / 2, y: y - h / 2, width: w, height: h, rx: Math.min(r, w / 2, h / 2), fill: fill || "none", stroke, "stroke-width": width};
    if (dash) a["stroke-dasharray"] = "4 3";
    this.add("rect", a);
  }
  text(x, y, text, size, weight, colour) {
    this.add("text", {x, y, "font-size": size, "font-weight": weight, fill: colour, "text-anchor": "middle", "dominant-baseline": "central"}, text);
  }
}

// window: [left, top, right, bottom] in graph coordinates; nothing outside is painted.
function paintGraph(pen, mode, window, scale, state) {
  const c = palette(), small = scale < 0.28, [left, top, right, bottom] = window;
  const back = mode === "backward", both = mode === "over";
  const thin = Math.max(1.4, 0.8 / scale), rim = Math.max(1.3, 0.9 / scale);
  for (const r of scene.routes) {
    const lit = r.ends.some(([s, t]) => s === state.selected || t === state.selected);
    const {p, box} = r.stub && !lit ? r.stub : r;
    if (box[0] > right || box[2] < left || box[1] > bottom || box[3] < top) continue;
    const reached = r.ends.some(([s, t]) => state.reached(s) && state.reached(t));
    const differs = r.ends.some(([s, t]) => state.hasGradient(s) && state.hasGradient(t));
    const arrow = (points, colour, backwards) => {
      pen.path(points, colour, lit ? 2.4 : thin);
      if (small) return;
      const end = backwards ? points[0] : points[points.length - 1], other = backwards ? points[1] : points[points.length - 2];
      pen.head(end[0], end[1], backwards ? other[1] < end[1] : other[1] <= end[1], colour);
    };
    if (!back) { pen.alpha(reached ? 1 : 0.22); arrow(both ? p.map(([x, y]) => [x - 3, y]) : p, lit ? c.select : c.link, false); }
    if (back || both) {
      const sent = r.ends.some(([s, t]) => state.sent(t) && state.hasGradient(s));
      pen.alpha(!differs ? (both ? 0 : 0.16) : sent ? 1 : 0.25);
      if (differs || back) arrow(both ? p.map(([x, y]) => [x + 3, y]) : p, differs ? c.grad : c.link, true);
    }
    if (p !== r.p && !small) { pen.alpha(reached ? 1 : 0.3); pen.text(p[0][0], p[0][1] - 7, r.stub.text, 10.5, 400, c.soft, 60); }
    pen.alpha(1);
  }
  if (!small) for (const l of scene.labels) {
    if (l.x < left - 60 || l.x > right + 60 || l.y < top - 20 || l.y > bottom + 20) continue;
    pen.box(l.x, l.y, l.text.length * 5.6 + 6, 15, 4, c.bg, c.bg, 1);
    pen.text(l.x, l.y, l.text, 10.5, 400, c.soft);
  }
  scene.nodes.forEach((n, i) => {
    if (n.x - n.w / 2 > right || n.x + n.w / 2 < left || n.y - n.h / 2 > bottom || n.y + n.h / 2 < top) return;
    const [fill, stroke] = c[n.kind] || c.op, look = state.look(i, mode);
    pen.alpha(look.alpha);
    if (look.ring) pen.box(n.x, n.y, n.w + 7, n.h + 7, n.r + 3.5, null, look.ring === "now" ? c.select : c.grad, look.ring === "now" ? 3 : 1.6);
    pen.box(n.x, n.y, n.w, n.h, n.r, fill, stroke, n.kind === "root" || n.kind === "group" ? rim * 1.5 : rim, n.kind === "buffer" || n.kind === "saved" || n.kind === "base");
    if (state.matches.has(i)) pen.box(n.x, n.y, n.w + 8, n.h + 8, n.r + 4, null, c.hit, 2.5);
    if (i === state.selected) pen.box(n.x, n.y, n.w + 8, n.h + 8, n.r + 4, null, c.select, 2.5);
    if (!small) {
      const lines = state.lines(i), title = mode === "backward" && n.kind === "op" ? "∂" + n.title : n.title;
      let y = n.y - (lines.length * 13.75) / 2;
      pen.text(n.x, y, title, 13, 600, c.ink, n.w - 12);
      y += 15;
      for (const line of lines) { pen.text(n.x, y, line, 11, 400, line.startsWith("grad") ? c.grad : c.soft, n.w - 8); y += 13.75; }
    }
    pen.alpha(1);
  });
}
