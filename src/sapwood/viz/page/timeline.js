// The steps: first the operations in the order they ran, then the backward pass in the engine's order.
const FORWARD = DATA.forward.length, END = FORWARD + DATA.backward.length;
let step = END, timer = null;

const isBorn = (i, at) => at >= END || !DATA.live[i] || DATA.live[i][0] < at || (DATA.items[i].kind === "leaf" || DATA.items[i].kind === "buffer");
const isLive = (i, at) => at >= END || !DATA.live[i] || (isBorn(i, at) && DATA.live[i][1] >= at - 1);
const hasArrived = (i, at) => DATA.gradients[i] !== null && (at >= END || DATA.gradients[i][0] < at);
const ownStep = new Map(DATA.backward.map((i, k) => [i, FORWARD + k]));
const hasRun = (i, at) => ownStep.has(i) && ownStep.get(i) < at;
const itemAt = at => at === 0 ? null : at <= FORWARD ? DATA.forward[at - 1] : DATA.backward[at - 1 - FORWARD];

function phaseText(at) {
  if (!END) return "no steps known";
  if (at === 0) return "before the forward pass";
  const i = itemAt(at), d = DATA.details[i];
  if (at === END) return `complete · ${END} steps`;
  return at <= FORWARD ? `forward ${at} of ${FORWARD} · ${DATA.items[i].title}` : `backward ${at - FORWARD} of ${DATA.backward.length} · ${d.name || DATA.items[i].title + ".grad"}`;
}
function setStep(value) {
  step = Math.max(0, Math.min(END, value));
  const slider = document.getElementById("step");
  slider.value = step;
  slider.setAttribute("aria-valuetext", phaseText(step));
  document.getElementById("phase").textContent = phaseText(step);
  follow(itemAt(step));
  refresh();
}
function play(on) {
  const button = document.getElementById("play");
  clearInterval(timer); timer = null;
  button.textContent = on ? "❚❚" : "▶";
  button.setAttribute("aria-label", on ? "Pause" : "Play");
  if (!on) return;
  if (step >= END) setStep(0);
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  timer = setInterval(() => { setStep(step + Math.max(1, Math.round(END / 400))); if (step >= END) play(false); }, still ? 900 : Math.max(60, Math.min(700, 24000 / Math.max(END, 1))));
}

const state = {
  selected: -1, matches: new Set(),
  reached: n => scene.nodes[n].items.some(i => isBorn(i, step)),
  hasGradient: n => scene.nodes[n].items.some(i => DATA.gradients[i] !== null || (DATA.details[i].gradient)),
  sent: n => step >= END || scene.nodes[n].items.some(i => hasRun(i, step) || (DATA.items[i].kind !== "op" && step > FORWARD)),
  look(n, mode) {
    const items = scene.nodes[n].items, now = step < END && items.includes(itemAt(step));
    if (mode === "backward" && step >= END) return {alpha: state.hasGradient(n) ? 1 : 0.35, ring: null};
    if (step >= END) return {alpha: 1, ring: null};
    const born = items.some(i => isBorn(i, step)), live = items.some(i => isLive(i, step));
    const arrived = step > FORWARD && items.some(i => hasArrived(i, step) && (DATA.gradients[i][1] >= step - 1));
    return {alpha: now || arrived ? 1 : !born ? 0.22 : live ? 1 : 0.5, ring: now ? "now" : arrived ? "grad" : null};
  },
  lines(n) {
    const node = scene.nodes[n];
    if (node.group !== null || node.kind === "op") return node.lines;
    const i = node.items[0];
    return node.lines.filter(l => l.startsWith("grad ") ? hasArrived(i, step)
      : l.startsWith("value ") ? isBorn(i, step) : true);
  },
};
