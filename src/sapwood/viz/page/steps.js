// The slider: forward by the order of the calls, then backward by the order of the engine.
"use strict";
const FORWARD = DATA.forward, BACKWARD = DATA.backward, LAST = FORWARD.length + BACKWARD.length;
const WHEN = new Map(FORWARD.map((id, k) => [id, k + 1])), BACK = new Map(BACKWARD.map((id, k) => [id, FORWARD.length + k + 1]));
const MAKERS = DATA.items.map(() => []);
for (const l of DATA.links) MAKERS[l.target].push(l.source);
DATA.items.forEach(i => {
  if (WHEN.has(i.id)) return;
  const from = MAKERS[i.id].map(k => WHEN.get(k) || 0);
  WHEN.set(i.id, from.length ? Math.max(...from) : 0);
});
// The last step that reads what an item made or kept: afterwards it is no longer needed.
const DONE = DATA.items.map(i => {
  const readers = USERS[i.id].map(k => BACK.get(k) || 0);
  return i.kind === "op" || i.kind === "nonleaf" ? Math.max(BACK.get(i.id) || 0, ...readers, 0) || Infinity : Infinity;
});
function stateOf(id) {
  const when = WHEN.get(id), back = BACK.get(id);
  if (step < when) return "";
  const now = step === when && when || step === back ? "now " : "";
  if (back !== undefined && step >= back) return now + "grad";
  return now + (step > DONE[id] ? "" : "alive");
}
function statesNow() {
  if (!step) return null;
  const found = new Map();
  for (const i of scene.items) found.set(i.id, i.members ? i.members.map(stateOf).sort().pop() : stateOf(i.id));
  return found;
}
function brief(v) {
  if (!v) return "";
  if (v.whole) return v.whole.length <= 4 ? (v.whole.length === 1 ? "" : "[") + v.whole.map(short).join(", ") + (v.whole.length === 1 ? "" : "]") : `${short(v.low)} … ${short(v.high)}`;
  return v.low !== undefined ? `${short(v.low)} … ${short(v.high)}` : "";
}
function live(i) {
  if (i.members) return null;
  const lines = i.value ? [brief(i.value)] : i.lines.slice(0, 1);
  if (BACK.has(i.id) && step >= BACK.get(i.id) && i.gradient && i.gradient[0]) lines.push("∂ " + brief(i.gradient[0]));
  return lines.filter(Boolean);
}
function go(to) {
  step = Math.max(0, Math.min(LAST, to));
  $("slider").value = step;
  const id = step === 0 ? null : step <= FORWARD.length ? FORWARD[step - 1] : BACKWARD[step - FORWARD.length - 1];
  $("where").textContent = !step ? "whole graph" : `${step <= FORWARD.length ? "forward" : "backward"} ${step <= FORWARD.length ? step : step - FORWARD.length} of ${step <= FORWARD.length ? FORWARD.length : BACKWARD.length}: ${step <= FORWARD.length ? DATA.items[id].title : DATA.items[id].node || "gradient of " + DATA.items[id].title}`;
  if (id !== null) details(DATA.items[id]);
  draw();
}
let playing = 0;
function play() {
  if (playing) { clearInterval(playing); playing = 0; }
  else { if (step >= LAST) go(0); playing = setInterval(() => { go(step + 1); if (step >= LAST) play(); }, Math.max(60, Math.min(600, 12000 / LAST))); }
  $("play").textContent = playing ? "❚❚" : "▶";
  $("play").setAttribute("aria-label", playing ? "Stop" : "Play");
}
