// The page: asks for news, keeps what came, draws when something changed.

const byId = id => document.getElementById(id);
const view = {kind: "gradient", log: false, smooth: 0, shared: true, paused: false};
const run = {version: 0, news: null, ended: null};
const alarmed = new Set();
let scheduled = false;

function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => { scheduled = false; drawMetrics(); drawLayers(); });
}

function readAt(step) {
  if (cross === step) return;
  cross = step;
  redraw();
}

function say(text) {
  byId("status").textContent = text;
}

function show(state, text) {
  const element = byId("state");
  if (element.dataset.is === state && element.lastElementChild.textContent === text) return;
  element.dataset.is = state;
  element.lastElementChild.textContent = text;
}

function showState() {
  if (run.ended !== null) {
    const failed = /^Training was stopped/.test(run.ended);
    show(failed ? "stopped" : "ended", run.ended);
    byId("state").title = run.ended;
  } else if (view.paused) show("paused", "Charts paused, training goes on");
  else show("live", "Live");
}

function fact(name, text) {
  const pair = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
  dt.textContent = name;
  dd.textContent = text;
  pair.append(dt, dd);
  return pair;
}

function showProgress(news) {
  const facts = [fact("Step", news.total ? `${count(news.step)} of ${count(news.total)}` : count(news.step))];
  if (run.ended === null) {
    if (news.rate) facts.push(fact("Speed", news.rate >= 10 ? count(news.rate) + " steps/s" : news.rate >= 1 ? figure(news.rate) + " steps/s" : figure(1 / news.rate) + " s/step"));
    if (news.left !== null && news.step < news.total) facts.push(fact("Left", duration(news.left)));
  }
  facts.push(fact("Elapsed", duration(news.elapsed)));
  if (news.cost !== null && news.step > 1) facts.push(fact("Cost of watching", (100 * news.cost).toFixed(news.cost < 0.1 ? 1 : 0) + " %"));
  byId("facts").replaceChildren(...facts);
  const track = byId("track");
  track.hidden = !news.total;
  if (news.total) {
    const part = Math.min(100, 100 * news.step / news.total);
    track.firstElementChild.style.width = part + "%";
    track.setAttribute("aria-valuenow", part.toFixed(0));
  }
  document.title = `${news.total ? Math.floor(100 * Math.min(1, news.step / news.total)) + " % · " : ""}${run.title} · Sapwood`;
}

function showAlarms(found) {
  const banner = byId("alarm");
  if (banner.childElementCount && banner.dataset.n === String(found.length)) return;
  banner.dataset.n = found.length;
  banner.hidden = !found.length;
  if (!found.length) return;
  const title = document.createElement("b"), list = document.createElement("ul");
  title.textContent = "Not finite";
  for (const alarm of found) {
    const item = document.createElement("li");
    item.textContent = alarm.text;
    list.append(item);
    alarmed.add(alarm.name);
  }
  banner.replaceChildren(title, list);
}

function take(news) {
  if (news.names) {
    run.title = news.title;
    byId("title").textContent = news.title;
    metrics.forEach(chart => chart.element.remove());
    metrics.clear();
    nameLayers(news.names, news.shapes);
  }
  takeMetrics(news.metrics);
  takeLayers(news.layers, news.histograms);
  showAlarms(news.alarms);
  showProgress(news);
  filterLayers();
  redraw();
}

// While the charts are frozen, what comes waits; so that nothing is lost, all of it.
const waiting = [];
function receive(news) {
  run.version = news.version;
  if (news.ended !== null) run.ended = news.ended;
  if (view.paused && run.title && run.ended === null) waiting.push(news);
  else { while (waiting.length) take(waiting.shift()); take(news); }
  if (run.ended !== null) { setPaused(false); byId("pause").hidden = true; say(run.ended); }
  showState();
}

async function ask() {
  let pause = 500;
  while (run.ended === null) {
    try {
      const answer = await fetch("data?since=" + run.version, {cache: "no-store"});
      if (!answer.ok) throw new Error(answer.status);
      receive(await answer.json());
      pause = 500;
    } catch (problem) {
      show("lost", "No answer from the program, asking again");
      await new Promise(resolve => setTimeout(resolve, pause));
      pause = Math.min(8000, pause * 1.6);
    }
  }
}

function setPaused(paused) {
  view.paused = paused;
  const button = byId("pause");
  button.setAttribute("aria-pressed", paused);
  button.textContent = paused ? "Resume" : "Pause";
  if (!paused) while (waiting.length) take(waiting.shift());
  if (run.title) showState();
}

function choose(kind) {
  view.kind = kind;
  for (const button of byId("views").children) {
    button.setAttribute("aria-checked", button.dataset.view === kind);
    button.tabIndex = button.dataset.view === kind ? 0 : -1;
  }
  byId("layers").classList.toggle("tall", kind.endsWith("s"));
  byId("shared").hidden = kind.endsWith("s");
  showHint();
  redraw();
}

function press(button, key) {
  view[key] = !view[key];
  button.setAttribute("aria-pressed", view[key]);
  redraw();
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  readColors();
  redraw();
}

byId("pause").onclick = () => setPaused(!view.paused);
byId("log").onclick = () => press(byId("log"), "log");
byId("shared").onclick = () => press(byId("shared"), "shared");
byId("theme").onclick = () => setTheme(document.documentElement.dataset.theme !== "dark");
byId("help").onclick = () => byId("keys").showModal();
byId("filter").oninput = () => { filterLayers(); redraw(); };
byId("smooth").oninput = event => {
  view.smooth = event.target.value / 100;
  byId("smoothed").textContent = view.smooth ? view.smooth.toFixed(2) : "off";
  redraw();
};
const buttons = [...byId("views").children];
buttons.forEach((button, i) => {
  button.onclick = () => choose(button.dataset.view);
  button.onkeydown = event => {
    const way = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1}[event.key];
    if (!way) return;
    event.preventDefault();
    const next = buttons[(i + way + buttons.length) % buttons.length];
    choose(next.dataset.view);
    next.focus();
  };
});
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const typing = event.target.matches("input[type=search]");
  if (event.key === "Escape") {
    readAt(null);
    if (typing) { byId("filter").value = ""; filterLayers(); redraw(); event.target.blur(); }
    return;
  }
  if (typing) return;
  if (event.key === " " && !event.target.matches("button")) { event.preventDefault(); if (run.ended === null) setPaused(!view.paused); }
  else if (event.key === "l") press(byId("log"), "log");
  else if (event.key === "t") byId("theme").click();
  else if (event.key === "?") byId("help").click();
  else if (event.key === "/") { event.preventDefault(); byId("filter").focus(); }
  else if (event.key >= "1" && event.key <= "5") choose(buttons[event.key - 1].dataset.view);
});
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => setTheme(dark.matches));
new ResizeObserver(redraw).observe(document.body);
setTheme(dark.matches);
showHint();
ask();
