"""What the explorer shows of a graph, as plain data: items with values, gradients, formulas, bytes, times and lines.

The backward pass is run once, on the engine's own steps, without touching any `.grad`, any hook or the random state.
Nothing in a snapshot keeps a tensor or a node alive.
"""

from __future__ import annotations

import inspect
import linecache
import math
import textwrap
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from sapwood.autograd import stepping
from sapwood.autograd.held import recorded, saved_arrays_of
from sapwood.errors import GradError, ValueRangeError
from sapwood.node import LEAF, Freed, Node
from sapwood.origin import origin_of, place
from sapwood.tensor import Tensor
from sapwood.viz.build import Builder
from sapwood.viz.collect import Names, is_accumulator, node_name, roots_of, walk
from sapwood.viz.model import Direction, Drawing

__all__ = ["snapshot"]

WHOLE = 64
"""Values of at most this many elements are kept whole."""
BINS = 24
CONTEXT = 3
"""Lines of source shown before and after the one that made a node."""


def snapshot(
    tensors: Any,
    *,
    module: Any = None,
    names: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    values: bool = True,
    backward: bool = True,
    direction: Direction = "TB",
    limit: int = 6000,
) -> dict[str, Any]:
    """Collect everything the explorer shows of the graph behind `tensors`.

    Args:
        tensors: one tensor or several, or a function that computes them: the roots.
        module: names parameters and buffers, and tells which submodule an operation belongs to: all of them where
            `tensors` is a function, else those that use parameters.
        names, params: names of tensors, as for `draw`.
        values: keep values and gradients; without, shapes and types only.
        backward: run a backward pass for the gradients; it starts with ones, whatever the roots' shapes.
        direction: "TB" (leaves on top) or "LR".
        limit: operations up to which a graph is shown.

    Returns:
        A dict that `json.dumps` takes: title, items, links, forward and backward order, notes.

    Raises:
        GradError: no root has a graph.
        ValueRangeError: the graph has more operations than `limit`.
    """
    from sapwood.viz.svg import arrange

    if callable(tensors) and not isinstance(tensors, Tensor):
        tensors = recorded(tensors, module)
    roots = roots_of(tensors, "snapshot")
    if all(t.grad_fn is None and not t.requires_grad for t in roots):
        raise GradError(
            "snapshot: the tensor has no graph: nothing it was computed from requires grad, or it was computed under "
            "no_grad; set requires_grad=True on an input first"
        )
    nodes = [n for n in walk(r.grad_fn for r in roots).nodes if not is_accumulator(n)]
    if len(nodes) > limit:
        raise ValueRangeError(
            f"snapshot: the graph has {len(nodes)} operations, more than the {limit} that are shown; show the loss of "
            f"fewer steps or layers, or pass limit={len(nodes)} and be patient"
        )
    builder = Builder(Names.of(names, params, module=module), show_values=values)
    builder.add_graph(roots)
    drawing = Drawing(builder.items, builder.links(), direction)
    _, plan = arrange(drawing)
    owners = _owners(module)
    items: list[dict[str, Any]] = [
        {"kind": item.kind, "title": item.title, "lines": list(item.lines)}
        | {"x": round(box.x, 1), "y": round(box.y, 1), "w": round(box.width, 1), "h": round(box.height, 1)}
        for item, box in zip(drawing.items, plan.boxes)
    ]
    for node in nodes:
        items[builder.outputs[id(node), -1]] |= _operation(node, owners, values)
    for node, item, tensor in _variables(builder, roots, nodes):
        items[item] |= _variable(tensor, values)
        if node is not None and (found := place(origin_of(node))):
            items[item]["line"] = _line(found)
    if values:
        _forward_values(builder, nodes, items)
    notes: list[str] = []
    order = _backward(builder, roots, items, values, notes) if backward else []
    forward = sorted((n for n in nodes), key=lambda n: getattr(n, "seq", 0))
    return {
        "title": f"Graph of {', '.join(i['title'] for i in items if i['kind'] == 'root') or 'a tensor'}",
        "direction": direction,
        "width": plan.width,
        "height": plan.height,
        "items": items,
        "links": [{"source": k.source, "target": k.target, "label": k.label} for k in drawing.links],
        "forward": [builder.outputs[id(n), -1] for n in forward],
        "backward": order,
        "notes": notes,
    }


def _variables(builder: Builder, roots: list[Any], nodes: list[Any]) -> list[tuple[Any, int, Any]]:
    """Return (node or None, item, tensor) of the drawn variables."""
    found = [(None, builder.outputs[key], node.variable) for key, node in _accumulators(builder, roots)]
    by_id = {id(n): n for n in nodes}
    for (node_id, number), item in builder.outputs.items():
        if number >= 0 and node_id in by_id:
            tensor = builder.names.outputs.get((node_id, number), ("", None))[1]
            tensor = next((r for r in roots if id(r.grad_fn) == node_id and r.output_nr == number), tensor)
            found.append((by_id[node_id], item, tensor))
    known = {item for _, item, _ in found}
    for tensor in (*(t for _, t in builder.names.constants), *roots):
        place_of = builder.variables.get(id(tensor))
        if place_of is not None and place_of not in known:
            found.append((None, place_of, tensor))
    return found


def _accumulators(builder: Builder, roots: list[Any]) -> list[tuple[tuple[int, int], Any]]:
    nodes = [n for n in walk(r.grad_fn for r in roots).nodes if is_accumulator(n)]
    return [((id(n), 0), n) for n in nodes if (id(n), 0) in builder.outputs]


def _variable(tensor: Any, values: bool) -> dict[str, Any]:
    if tensor is None:
        return {}
    found: dict[str, Any] = {
        "shape": list(tensor.shape), "dtype": tensor.dtype.name, "leaf": bool(tensor.is_leaf),
        "requires_grad": bool(tensor.requires_grad),
    }  # fmt: skip
    if type(tensor).__name__ == "Parameter":
        found["parameter"] = True
    if values:
        found["value"] = describe(tensor.detach()._array)
    return found


def _owners(module: Any) -> dict[int, str]:
    """Return the path of the submodule that each parameter belongs to."""
    if module is None:
        return {}
    found: dict[int, str] = {}
    for path, m in module.named_modules():
        for p in m.parameters(recurse=False):
            found.setdefault(id(p), path)
    return found


def _operation(node: Any, owners: dict[int, str], values: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"node": node_name(node), "seq": getattr(node, "seq", 0)}
    op = getattr(node, "op", None)
    if op is not None:
        found |= {"op": op.name, "doc": (op.__doc__ or "").strip().splitlines()[0], "formulas": formulas_of(op)}
    metadata = getattr(node, "_input_metadata", None) or ()
    if metadata:
        found |= {"shape": list(metadata[0].shape), "dtype": str(metadata[0].dtype).rpartition(".")[2]}
    if isinstance(getattr(node, "saved", None), Freed):
        found["freed"] = True
    elif isinstance(node, Node):
        kept = [(name, a) for name, a in saved_arrays_of(node) if isinstance(a, np.ndarray)]
        found["saved"] = [
            {"name": n, "shape": list(a.shape), "bytes": a.nbytes, **({"value": describe(a)} if values else {})}
            for n, a in kept
        ]
        found["bytes"] = sum(a.nbytes for _, a in kept)
    scope = (getattr(node, "extra", None) or {}).get("module") or next(
        (owners[id(e)] for e in getattr(node, "edges", ()) if id(e) in owners), ""
    )
    if scope:
        found["scope"] = scope.split(" ")[0]
    if line := place(origin_of(node)):
        found["line"] = _line(line)
    return found


def _line(found: Any) -> dict[str, Any]:
    first = max(1, found.line - CONTEXT)
    around = [linecache.getline(found.file, n).rstrip("\n") for n in range(first, found.line + CONTEXT + 1)]
    while around and not around[-1]:
        around.pop()
    return {"file": found.short, "number": found.line, "function": found.function, "first": first, "around": around}


@cache
def formulas_of(op: Any) -> list[list[str]]:
    """Return the sources of an op's derivatives: (input, text) for each."""
    names = [n.lstrip("*") for n in op.inputs]
    formulas = [("all inputs", op.vjp)] if op.vjp is not None else list(zip(names, op.vjps))
    return [[name, source_of(f)] for name, f in formulas if f is not None]


def source_of(function: Any) -> str:
    """Return the text of a formula as the declaration has it."""
    try:
        text = textwrap.dedent(inspect.getsource(function)).strip()
    except (OSError, TypeError):
        return f"{getattr(function, '__name__', function)}"
    return text.partition(" = ")[2] if text.startswith("vjp") and "lambda" in text else text


def describe(array: Any) -> dict[str, Any]:
    """Return an array's elements if they are few, else their distribution."""
    a = np.asarray(array)
    found: dict[str, Any] = {"shape": list(a.shape), "dtype": a.dtype.name}
    if a.dtype.kind == "c":
        return found | ({"whole": [str(x) for x in a.ravel()]} if a.size <= WHOLE else {})
    wide = a.astype(np.float64) if a.dtype.kind in "fV" or a.dtype.name == "bfloat16" else a
    if a.size <= WHOLE:
        found["whole"] = [_plain(x) for x in wide.ravel().tolist()]
    if not a.size or a.size == 1:
        return found
    flat = wide.ravel().astype(np.float64)
    finite = flat[np.isfinite(flat)]
    found["counts"] = {
        "nan": int(np.isnan(flat).sum()), "inf": int(np.isinf(flat).sum()), "zero": int((flat == 0).sum()),
        "all": int(flat.size),
    }  # fmt: skip
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        with np.errstate(over="ignore", invalid="ignore"):
            found |= {"low": low, "high": high, "mean": _plain(finite.mean()), "std": _plain(finite.std())}
            found["norm"] = _plain(np.sqrt((finite * finite).sum()))
        if a.size > 8 and math.isfinite(high - low):
            found["bins"] = np.histogram(finite, BINS, (low, high) if high > low else (low - 0.5, low + 0.5))[
                0
            ].tolist()
    return found


def _plain(x: Any) -> Any:
    """Return a number as JSON has it; NaN and infinities as text."""
    return str(x) if isinstance(x, float) and not math.isfinite(x) else float(x) if isinstance(x, np.generic) else x


def _forward_values(builder: Builder, nodes: list[Any], items: list[dict[str, Any]]) -> None:
    """Give operations the value they made, where a node after them has kept it, or they themselves."""
    for node in nodes:
        if not isinstance(node, Node) or node.op is None or isinstance(node.saved, Freed | None):
            continue
        kept = dict(saved_arrays_of(node))
        own = items[builder.outputs[id(node), -1]]
        if "result" in kept and "value" not in own:
            own["value"] = describe(kept["result"])
        names = [{"input": "self"}.get(n.lstrip("*"), n.lstrip("*")) for n in node.op.inputs]
        for name, (follower, number) in zip(names, node.next_functions):
            if follower is None or name not in kept or is_accumulator(follower) or number:
                continue
            made = items[builder.outputs[id(follower), -1]]
            shape = getattr(follower, "shape", None)
            if "value" not in made and shape == kept[name].shape:
                made["value"] = describe(kept[name])


def _backward(
    builder: Builder, roots: list[Any], items: list[dict[str, Any]], values: bool, notes: list[str]
) -> list[int]:
    """Run a backward pass; write gradients and times into the items; return the items in the order of the pass."""
    order: list[int] = []
    leaves: dict[Any, Any] = {}
    starts = [
        (r if r._node is LEAF else r._node, np.ones(r._array.shape, r._array.dtype)) for r in roots if r.requires_grad
    ]
    if not starts:
        notes.append("no root requires a gradient")
        return order
    begin = time.perf_counter()
    try:
        for step in stepping.walk(starts, leaves, keep=True, hooks=False):
            spent = time.perf_counter() - begin
            item = builder.outputs.get((id(step.node), -1))
            if item is not None:
                order.append(item)
                items[item]["backward_us"] = round(1e6 * spent, 1)
                if values:
                    items[item]["gradient"] = [_gradient(g) for g in step.incoming]
                    items[item]["gradients"] = [_gradient(g) for g in step.grads]
            begin = time.perf_counter()
    except Exception as problem:
        notes.append(f"the backward pass stopped: {problem}")
        return order
    for leaf, g in leaves.items():
        item = builder.variables.get(id(leaf))
        if item is not None:
            order.append(item)
            if values:
                items[item]["gradient"] = [describe(np.asarray(g))]
    return order


def _gradient(g: Any) -> Any:
    return None if g is None else describe(g._array if isinstance(g, Tensor) else g)
