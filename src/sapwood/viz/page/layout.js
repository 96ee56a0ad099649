// A small layered layout for what is left when modules are folded: rank, order by barycentres, place.
"use strict";
function layered(boxes, links, sideways) {
  const n = boxes.length, after = boxes.map(() => []), before = boxes.map(() => []), rank = new Array(n).fill(0);
  for (const l of links) { after[l.source].push(l.target); before[l.target].push(l.source); }
  const open = before.map(b => b.length), queue = [];
  for (let i = 0; i < n; i++) if (!open[i]) queue.push(i);
  for (let k = 0; k < queue.length; k++) for (const t of after[queue[k]]) {
    rank[t] = Math.max(rank[t], rank[queue[k]] + 1);
    if (!--open[t]) queue.push(t);
  }
  // Sources sit right before what they feed.
  for (const i of queue.slice().reverse()) if (!before[i].length && after[i].length) rank[i] = Math.min(...after[i].map(t => rank[t])) - 1;
  const layers = [];
  for (const i of queue) (layers[rank[i]] ||= []).push(i);
  for (let r = 0; r < layers.length; r++) layers[r] ||= [];
  const place = new Array(n).fill(0);
  const number = () => layers.forEach(l => l.forEach((v, k) => { place[v] = k - l.length / 2; }));
  number();
  for (let sweep = 0; sweep < 10; sweep++) {
    const down = sweep % 2 === 0, near = down ? before : after;
    for (const layer of down ? layers : layers.slice().reverse()) {
      const key = new Map(layer.map(v => [v, near[v].length ? near[v].reduce((s, u) => s + place[u], 0) / near[v].length : place[v]]));
      layer.sort((a, b) => key.get(a) - key.get(b) || a - b);
      layer.forEach((v, k) => { place[v] = k - layer.length / 2; });
    }
  }
  const across = v => sideways ? boxes[v].h : boxes[v].w, along = v => sideways ? boxes[v].w : boxes[v].h;
  let depth = 20;
  const x = new Array(n).fill(0);
  const settle = (layer, wanted) => {
    // Keep the order and the gaps, as near to the wanted places as that allows (pool adjacent violators).
    const blocks = [], offset = [];
    let o = 0;
    layer.forEach((v, k) => {
      if (k) o += (across(layer[k - 1]) + across(v)) / 2 + 26;
      offset.push(o);
      let b = { mean: wanted(v) - o, count: 1 };
      while (blocks.length && blocks[blocks.length - 1].mean > b.mean) {
        const p = blocks.pop();
        b = { mean: (p.mean * p.count + b.mean * b.count) / (p.count + b.count), count: p.count + b.count };
      }
      blocks.push(b);
    });
    let k = 0;
    for (const b of blocks) for (let i = 0; i < b.count; i++, k++) x[layer[k]] = b.mean + offset[k];
  };
  layers.forEach(l => settle(l, () => 0));
  for (let sweep = 0; sweep < 12; sweep++) {
    const near = sweep % 2 ? after : before;
    for (const l of sweep % 2 ? layers.slice().reverse() : layers)
      settle(l, v => near[v].length ? near[v].reduce((s, u) => s + x[u], 0) / near[v].length : x[v]);
  }
  const left = Math.min(...boxes.map((_, v) => x[v] - across(v) / 2), 0);
  for (const layer of layers) {
    const thick = Math.max(0, ...layer.map(along));
    for (const v of layer) {
      const a = x[v] - left + 20, d = depth + thick / 2;
      boxes[v].x = sideways ? d : a;
      boxes[v].y = sideways ? a : d;
    }
    depth += thick + 42;
  }
}
