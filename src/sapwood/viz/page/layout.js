// A layered layout for the picture with folded modules: rank, order, place. The whole graph comes placed already.
const GAP_X = 26, GAP_Y = 46, EDGE = 24;

function layered(nodes, edges) {
  const n = nodes.length, above = [], below = [];
  for (let v = 0; v < n; v++) { above.push([]); below.push([]); }
  for (const [s, t] of edges) { below[s].push(t); above[t].push(s); }
  // Rank by the longest path. Folding can make cycles: the earliest node that still waits then goes first.
  const waiting = above.map(a => a.length), rank = new Array(n).fill(0), done = new Array(n).fill(false), ready = [];
  for (let v = 0; v < n; v++) if (!waiting[v]) ready.push(v);
  let next = 0;
  for (let taken = 0, head = 0; taken < n; taken++) {
    let v;
    if (head < ready.length) v = ready[head++];
    else { while (done[next] || waiting[next] <= 0) next++; v = next; waiting[v] = 0; }
    done[v] = true;
    for (const t of below[v]) {
      if (done[t]) continue;
      rank[t] = Math.max(rank[t], rank[v] + 1);
      if (--waiting[t] === 0) ready.push(t);
    }
  }
  // Sources move down to just above what uses them, and before them what depends on sources alone.
  const source = above.map(a => !a.length);
  for (const moves of [v => !source[v] && above[v].every(u => source[u]), v => source[v]]) for (let v = n - 1; v >= 0; v--) {
    const uses = below[v].map(t => rank[t]).filter(r => r > rank[v]);
    if (moves(v) && uses.length) rank[v] = uses.reduce((least, r) => Math.min(least, r)) - 1;
  }
  // Points on long links, so that links pass between the nodes.
  const size = nodes.map(v => ({w: v.w, h: v.h})), up = nodes.map(() => []), down = nodes.map(() => []);
  // Long links of one source share their points, so that they leave it as one line with branches: a link is its source's
  // trunk, one point a rank, up to `count`.
  const trunks = nodes.map(() => []);
  const join = (u, v) => { down[u].push(v); up[v].push(u); };
  const chains = edges.map(([s, t]) => {
    const [a, b] = rank[s] <= rank[t] ? [s, t] : [t, s], trunk = trunks[a];
    const count = size.length < 14000 ? Math.max(rank[b] - rank[a] - 1, 0) : 0;
    for (let i = trunk.length; i < count; i++) {
      const point = size.length;
      rank.push(rank[a] + 1 + i); size.push({w: 4, h: 0}); up.push([]); down.push([]);
      join(i ? trunk[i - 1] : a, point);
      trunk.push(point);
    }
    if (rank[a] !== rank[b]) join(count ? trunk[count - 1] : a, b);
    return {a, b, trunk, count, flipped: a !== s};
  });
  const depth = rank.reduce((most, r) => Math.max(most, r), 0) + 1, layers = Array.from({length: depth}, () => []);
  rank.forEach((r, v) => layers[r].push(v));
  const place = new Array(size.length).fill(0);
  const note = layer => layer.forEach((v, i) => { place[v] = i; });
  layers.forEach(note);
  const sweeps = size.length > 6000 ? 4 : 10;
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const near = sweep % 2 ? down : up, order = sweep % 2 ? [...layers].reverse() : layers;
    for (const layer of order) {
      const key = new Map(layer.map((v, i) => [v, near[v].length ? near[v].reduce((a, u) => a + place[u], 0) / near[v].length : i]));
      layer.sort((a, b) => key.get(a) - key.get(b) || place[a] - place[b]);
      note(layer);
    }
  }
  const x = new Array(size.length).fill(0);
  for (const layer of layers) settleLayer(layer, size, x, null);
  for (let sweep = 0; sweep < 14; sweep++) {
    const near = sweep % 2 ? down : up, order = sweep % 2 ? [...layers].reverse() : layers;
    for (const layer of order) settleLayer(layer, size, x, v => {
      if (!near[v].length) return x[v];
      const xs = near[v].map(u => x[u]).sort((a, b) => a - b), m = xs.length >> 1;
      return xs.length % 2 ? xs[m] : (xs[m - 1] + xs[m]) / 2;
    });
  }
  const top = [], bottom = [];
  let y = EDGE;
  for (const layer of layers) {
    const high = layer.reduce((most, v) => Math.max(most, size[v].h), 0);
    top.push(y); bottom.push(y + high);
    y += high + GAP_Y;
  }
  let left = Infinity, right = 0;
  size.forEach((s, v) => { left = Math.min(left, x[v] - s.w / 2); });
  x.forEach((_, v) => { x[v] += EDGE - left; right = Math.max(right, x[v] + size[v].w / 2); });
  nodes.forEach((v, i) => { v.x = x[i]; v.y = (top[rank[i]] + bottom[rank[i]]) / 2; });
  const routes = chains.map(({a, b, trunk, count, flipped}) => {
    const from = nodes[a], to = nodes[b], p = [[from.x, from.y + from.h / 2], [from.x, bottom[rank[a]]]];
    // A very long link is a stub until it is selected, and then straight: all points of all would be too many.
    if (count > 98) { const v = trunk[0], w = trunk[count - 1]; p.push([x[v], top[rank[v]]], [x[w], bottom[rank[w]]]); }
    else for (let i = 0; i < count; i++) { const v = trunk[i]; p.push([x[v], top[rank[v]]], [x[v], bottom[rank[v]]]); }
    p.push([to.x, top[rank[b]]], [to.x, to.y - to.h / 2]);
    return flipped ? p.reverse() : p;
  });
  return {routes, width: right + EDGE, height: y - GAP_Y + EDGE};
}

// Move a layer's nodes as near to the wanted places as order and distance allow: too near neighbours move as a block.
function settleLayer(layer, size, x, wanted) {
  const blocks = [], offsets = [];
  let offset = 0;
  layer.forEach((v, i) => {
    if (i) offset += (size[layer[i - 1]].w + size[v].w) / 2 + (size[v].h && size[layer[i - 1]].h ? GAP_X : 14);
    offsets.push(offset);
    let mean = (wanted ? wanted(v) : 0) - offset, count = 1;
    while (wanted && blocks.length && blocks[blocks.length - 1].mean > mean) {
      const before = blocks.pop();
      mean = (before.mean * before.count + mean * count) / (before.count + count);
      count += before.count;
    }
    if (!wanted && blocks.length) blocks[0].count++;
    else blocks.push({mean: wanted ? mean : 0, count});
  });
  let i = 0;
  const middle = wanted ? 0 : offset / 2;
  for (const block of blocks) for (let k = 0; k < block.count; k++, i++) x[layer[i]] = block.mean + offsets[i] - middle;
}
