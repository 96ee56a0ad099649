// One card per value that the program logs.

const metrics = new Map();

function card(parent, name, shape) {
  const figureElement = document.createElement("figure"), caption = document.createElement("figcaption");
  figureElement.className = "card";
  const part = (kind, text) => { const e = document.createElement("span"); e.className = kind; e.textContent = text; caption.append(e); return e; };
  const title = part("name", name);
  title.title = name;
  if (shape) part("shape", shape);
  const value = part("value", "");
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.dataset.name = name;
  figureElement.append(caption, canvas);
  parent.append(figureElement);
  followPointer(canvas);
  return {element: figureElement, canvas, value, name};
}

function takeMetrics(news) {
  for (const [name, curve] of Object.entries(news)) {
    if (!metrics.has(name)) metrics.set(name, {...card(byId("metrics"), name), curve: newCurve()});
    grow(metrics.get(name).curve, curve);
  }
  byId("no-metrics").hidden = metrics.size > 0;
}

function tell(chart, read, where) {
  chart.value.textContent = "";
  if (where) { const at = document.createElement("span"); at.className = "at"; at.textContent = where; chart.value.append(at); }
  const bad = read.step !== null && read.value === null && !chart.curve.unset;
  chart.value.append(bad ? "not finite" : figure(read.value));
  chart.value.classList.toggle("bad", bad);
}

function drawMetrics() {
  for (const chart of metrics.values()) {
    const read = reading(chart.curve);
    tell(chart, read, cross === null || read.step === null ? "" : "step " + count(read.step));
    draw(chart.canvas, chart.curve, {log: view.log, weight: view.smooth});
    const [step, value] = chart.curve.latest;
    chart.canvas.setAttribute("aria-label", `${chart.name}: ${value === null ? "not finite" : figure(value)} at step ${step === null ? 0 : count(step)}`);
  }
}
