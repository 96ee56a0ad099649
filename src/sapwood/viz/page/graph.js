// What is drawn now: items and links, with folded modules as one box each.
"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const SIDEWAYS = DATA.direction === "LR";
DATA.items.forEach((item, i) => { item.id = i; });
const MODULES = (() => {
  const found = new Map();
  for (const item of DATA.items) {
    const parts = (item.scope || "").split(".").filter(Boolean);
    for (let k = 1; k <= parts.length; k++) {
      const path = parts.slice(0, k).join(".");
      if (!found.has(path)) found.set(path, []);
      found.get(path).push(item.id);
    }
  }
  return found;
})();
const folded = new Set();
function foldedUnder(item) {
  const parts = (item.scope || "").split(".").filter(Boolean);
  for (let k = 1; k <= parts.length; k++) { const path = parts.slice(0, k).join("."); if (folded.has(path)) return path; }
  return "";
}
// Leaves go with the module all of whose operations use them.
const USERS = DATA.items.map(() => []);
for (const l of DATA.links) USERS[l.source].push(l.target);
function homeOf(item) {
  if (item.kind === "op") return foldedUnder(item);
  const near = USERS[item.id];
  if (item.kind === "root" || !near.length) return "";
  const homes = new Set(near.map(i => foldedUnder(DATA.items[i])));
  return homes.size === 1 ? [...homes][0] : "";
}
function shown() {
  const items = [], at = new Map(), boxes = new Map();
  for (const item of DATA.items) {
    const home = homeOf(item);
    if (!home) { at.set(item.id, items.length); items.push({ ...item }); continue; }
    if (!boxes.has(home)) {
      boxes.set(home, items.length);
      items.push({ id: "m:" + home, kind: "module", title: home, lines: [], scope: home, members: [], w: Math.max(110, home.length * 8 + 26), h: 44, x: 0, y: 0 });
    }
    at.set(item.id, boxes.get(home));
    items[boxes.get(home)].members.push(item.id);
  }
  for (const i of boxes.values()) { const m = items[i]; m.lines = [`${m.members.filter(k => DATA.items[k].kind === "op").length} operations`]; }
  const links = [], seen = new Map();
  for (const l of DATA.links) {
    const a = at.get(l.source), b = at.get(l.target);
    if (a === b) continue;
    const key = a + ">" + b;
    if (seen.has(key)) { const k = seen.get(key); if (k.label !== l.label) k.label = ""; continue; }
    const link = { source: a, target: b, label: l.label };
    seen.set(key, link); links.push(link);
  }
  if (folded.size) layered(items, acyclic(items.length, links), SIDEWAYS);
  return { items, links };
}
// A module that is left and entered again makes a cycle; links that close one do not count for the layout.
function acyclic(n, links) {
  const after = Array.from({ length: n }, () => []), state = new Array(n).fill(0), back = new Set();
  links.forEach((l, k) => after[l.source].push([l.target, k]));
  for (let s = 0; s < n; s++) {
    if (state[s]) continue;
    const stack = [[s, 0]];
    state[s] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1];
      if (top[1] >= after[top[0]].length) { state[top[0]] = 2; stack.pop(); continue; }
      const [t, k] = after[top[0]][top[1]++];
      if (state[t] === 1) back.add(k);
      else if (!state[t]) { state[t] = 1; stack.push([t, 0]); }
    }
  }
  return links.filter((_, k) => !back.has(k));
}
