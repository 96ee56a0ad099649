// What is on screen: the items as they are, or with some modules folded into one box each.
const DATA = JSON.parse(document.getElementById("data").textContent);
const FAR = 3000;
const KEY = parts => parts.join("\u0000");

const modules = new Map();
DATA.details.forEach((detail, i) => {
  const path = detail.scope || [];
  for (let d = 1; d <= path.length; d++) {
    const key = KEY(path.slice(0, d));
    if (!modules.has(key)) modules.set(key, {key, path: path.slice(0, d), items: []});
    modules.get(key).items.push(i);
  }
});
// A long graph without modules, such as a recurrence, is cut into runs of operations instead, by their order.
const LONG = 400, RUN = 100, RUNS = "\u0001";
if (!modules.size && DATA.items.length > LONG && DATA.forward.length) {
  const home = new Map();
  DATA.forward.forEach((item, at) => home.set(item, Math.floor(at / RUN)));
  // A result goes with the operation that makes it; what comes from outside stays outside.
  for (const link of DATA.links) if (DATA.items[link.s].kind === "op" && DATA.items[link.t].kind === "nonleaf" && home.has(link.s)) home.set(link.t, home.get(link.s));
  for (const [item, k] of home) {
    const name = `operations ${k * RUN + 1}–${Math.min((k + 1) * RUN, DATA.forward.length)}`, key = RUNS + k;
    if (!modules.has(key)) modules.set(key, {key, path: [name], items: [], order: k});
    modules.get(key).items.push(item);
  }
}
const runs = modules.size > 0 && [...modules.keys()][0].startsWith(RUNS), runOf = new Map();
if (runs) for (const m of modules.values()) for (const item of m.items) runOf.set(item, m.key);
const folded = new Set();
let scene = null;

// The modules that an item lies in, the outermost first.
function keysOf(item) {
  if (runs) return runOf.has(item) ? [runOf.get(item)] : [];
  const path = DATA.details[item].scope || [];
  return path.map((_, d) => KEY(path.slice(0, d + 1)));
}
function homeOf(item) {
  for (const key of keysOf(item)) if (folded.has(key)) return key;
  return null;
}

function buildScene() {
  const nodes = [], where = new Array(DATA.items.length), groups = new Map();
  DATA.items.forEach((item, i) => {
    const key = homeOf(i);
    if (key === null) { where[i] = nodes.length; nodes.push({...item, items: [i], group: null}); return; }
    if (!groups.has(key)) {
      const m = modules.get(key), title = m.path[m.path.length - 1], line = m.items.length + (m.items.length === 1 ? " item" : " items");
      groups.set(key, nodes.length);
      nodes.push({kind: "group", title, lines: [line], items: m.items, group: key, r: 10, h: 46,
        w: Math.max(90, 26 + 8.2 * title.length)});
    }
    where[i] = groups.get(key);
  });
  const pairs = new Map(), pairOf = DATA.links.map(link => {
    const s = where[link.s], t = where[link.t], id = s + ">" + t;
    if (s === t) return -1;
    if (!pairs.has(id)) pairs.set(id, {s, t, links: []});
    pairs.get(id).links.push(link);
    return id;
  });
  const edges = [...pairs.values()];
  let routes, width = DATA.width, height = DATA.height, labels = [];
  if (groups.size || !DATA.placed) {
    const plan = layered(nodes, edges.map(e => [e.s, e.t]));
    routes = plan.routes.map((p, i) => ({p, ends: [[edges[i].s, edges[i].t]]}));
    ({width, height} = plan);
  } else {
    routes = DATA.routes.map(r => ({p: r.p, ends: r.links.map(l => [where[DATA.links[l].s], where[DATA.links[l].t]])}));
    labels = DATA.labels.map(([x, y, l]) => ({x, y, text: DATA.links[l].label}));
  }
  for (const r of routes) {
    r.box = [Infinity, Infinity, -Infinity, -Infinity];
    for (const [x, y] of r.p) r.box = [Math.min(r.box[0], x), Math.min(r.box[1], y), Math.max(r.box[2], x), Math.max(r.box[3], y)];
  }
  // A very long link by itself is shown as a stub that names its source, unless one of its ends is selected.
  for (const r of routes) if (r.ends.length === 1 && r.box[3] - r.box[1] > FAR) {
    const [x, y] = r.p[r.p.length - 1];
    r.stub = {p: [[x, y - 20], [x, y]], text: nodes[r.ends[0][0]].title, box: [x - 40, y - 36, x + 40, y]};
  }
  const into = nodes.map(() => []), from = nodes.map(() => []);
  for (const e of edges) { from[e.s].push(e.t); into[e.t].push(e.s); }
  return {nodes, where, routes, labels, width, height, into, from};
}
