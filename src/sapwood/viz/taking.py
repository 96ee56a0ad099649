"""A snapshot in the making: what forward left behind, and what the backward pass brings, item by item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from typing import Any

from sapwood.viz.build import Builder
from sapwood.viz.collect import is_accumulator, node_name, op_name
from sapwood.viz.describe import nested_text
from sapwood.viz.nodes import formulas_of, outputs_of, scope_of, source_of
from sapwood.viz.page.figures import summary
from sapwood.viz.page.recording import Recording

__all__ = ["Taken"]

# Gradients of more characters than this are left to the panel.
WIDEST = 20


@dataclass(slots=True)
class Taken:
    """A snapshot in the making.

    order: items in the order of the forward pass. passed: items in the order of the backward pass.
    """

    builder: Builder
    roots: list[Any]
    nodes: list[Any]
    recording: Recording
    values: bool
    details: list[dict[str, Any]] = field(init=False)
    order: list[int] = field(default_factory=list)
    passed: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    users: dict[int, list[int]] = field(default_factory=dict)
    keepers: dict[int, list[int]] = field(default_factory=dict)
    arrivals: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.details = [{} for _ in self.builder.items]

    def place(self, node: Any) -> int:
        """Return the item of a node: an operation's box, or the circle of a leaf."""
        return self.builder.outputs[id(node), 0 if is_accumulator(node) else -1]

    def place_of_edge(self, edge: Any) -> int | None:
        node = getattr(edge, "grad_fn", None) or getattr(edge, "node", edge)
        outputs = self.builder.outputs
        if (id(node), -1) in outputs:
            return outputs[id(node), -1]
        return self.builder.variables.get(id(edge))

    def forward(self, module: Any) -> None:
        """Note what the forward pass left behind."""
        from sapwood.autograd.held import _held, _owners
        from sapwood.node import Freed

        owners = _owners(module)
        counted: set[int] = set()
        for tensor_id, tensor in self.tensors():
            self.details[self.builder.variables[tensor_id]] = self.of_tensor(tensor)
        operations = sorted((n for n in self.nodes if not is_accumulator(n)), key=lambda n: n._sequence_nr())
        freed = 0
        for node in operations:
            place = self.place(node)
            freed += isinstance(getattr(node, "saved", None), Freed)
            rows = list(_held(node, owners, counted)) if hasattr(node, "saved") else []
            detail = self.details[place]
            detail.update(name=node_name(node), op=op_name(node), seq=node._sequence_nr())
            detail["bytes"] = sum(row.bytes for row in rows)
            detail["scope"] = scope_of(node, owners)
            detail["shape"], detail["dtype"] = outputs_of(node)
            detail["formula"] = list(formulas_of(node))
            detail.update(source_of(node))
            if id(node) in self.recording.seen:
                _, detail["forward_time"], value = self.recording.seen[id(node)]
                if self.values:
                    detail["value"] = value
            self.keep(node, place, detail)
            self.order.append(place)
        for place, item in enumerate(self.builder.items):
            if item.is_variable and not self.details[place].get("scope"):
                self.details[place]["scope"] = self.scope_of_leaf(place)
        if freed:
            self.notes.append(
                f"An earlier backward pass has freed what {freed} of {len(operations)} operations saved. "
                "Use backward(retain_graph=True), or take the snapshot before backward, to see values and gradients."
            )

    def tensors(self) -> Iterator[tuple[int, Any]]:
        known = {id(n.variable): n.variable for n in self.nodes if is_accumulator(n)}
        known.update((id(tensor), tensor) for tensor in self.roots)
        known.update((id(tensor), tensor) for _, tensor in self.builder.names.outputs.values())
        known.update((id(tensor), tensor) for _, tensor in self.builder.names.constants)
        return ((key, tensor) for key, tensor in known.items() if key in self.builder.variables)

    def of_tensor(self, tensor: Any) -> dict[str, Any]:
        """Describe a variable."""
        detail: dict[str, Any] = {"shape": str(tuple(tensor.shape)), "dtype": str(tensor.dtype).rpartition(".")[2]}
        if self.values:
            detail["value"] = summary(tensor._array)
        return detail

    def scope_of_leaf(self, place: int) -> list[str]:
        name = self.builder.items[place].title
        return name.split(".")[:-1] if self.builder.items[place].kind in ("leaf", "buffer") else []

    def keep(self, node: Any, place: int, detail: dict[str, Any]) -> None:
        """Note what a node saved: whose results these are, and who needs them until its backward step."""
        from sapwood.autograd.held import saved_arrays_of

        detail["saved"] = [{"name": name, **summary(array, full=self.values)} for name, array in saved_arrays_of(node)]
        for edge in getattr(node, "edges", ()):
            source = None if edge is None else self.place_of_edge(edge)
            if source is not None:
                self.users.setdefault(source, []).append(place)
        saved = getattr(node, "saved", None)
        if type(saved) is not tuple or node.op is None:
            return
        for name, value in zip(node.keeps, saved):
            if not hasattr(value, "dtype") or not hasattr(value, "shape"):
                continue
            if name in node.out_names[:1]:
                source = place
            elif name in node.inputs:
                edge = node.edges[node.inputs.index(name)]
                source = None if edge is None else self.place_of_edge(edge)
            else:
                continue
            if source is not None:
                self.keepers.setdefault(source, []).append(place)
                if self.values and not self.builder.items[source].is_variable:
                    self.details[source].setdefault("value", summary(value))

    def backward(self) -> None:
        """Run the pass, and note per node what arrives, what leaves and how long it took."""
        from sapwood.autograd.run import _roots
        from sapwood.autograd.stepping import walk as steps
        from sapwood.errors import GradError
        from sapwood.random import get_rng_state, set_rng_state
        from sapwood.tensor import wrap

        wanted = [root for root in self.roots if root.requires_grad]
        if not wanted:
            self.notes.append("No gradient: no operation that requires one leads to this tensor.")
            return
        state = get_rng_state()
        leaves: dict[Any, Any] = {}
        try:
            import numpy as np

            starts = _roots("snapshot", wanted, [wrap(np.ones(t._array.shape, t._array.dtype)) for t in wanted], False)
            if any(t._array.size != 1 for t in wanted):
                self.notes.append("The tensor has several elements: the backward pass starts with a gradient of ones.")
            began = perf_counter_ns()
            for step in steps(starts, leaves, keep=True, hooks=False):
                took = perf_counter_ns() - began
                self.note_step(step, took)
                began = perf_counter_ns()
        except GradError as problem:
            self.notes.append(f"The backward pass stopped: {problem}")
        except Exception as problem:  # a user's own Function may raise anything
            self.notes.append(f"The backward pass stopped: {type(problem).__name__}: {problem}")
        finally:
            set_rng_state(state)
        for leaf, g in leaves.items():
            place = self.builder.variables.get(id(leaf))
            if place is not None:
                self.details[place]["gradient"] = summary(g, full=self.values)
                self.arrivals.setdefault(place, len(self.passed))
                self.passed.append(place)

    def note_step(self, step: Any, took: int) -> None:
        place = self.place(step.node)
        detail = self.details[place]
        detail["time"] = took
        detail["gradient_in"] = [None if g is None else summary(g._array, full=self.values) for g in step.incoming]
        detail["gradient_out"] = [None if g is None else summary(g._array, full=self.values) for g in step.grads]
        for number, incoming in enumerate(detail["gradient_in"]):
            variable = self.builder.outputs.get((id(step.node), number))
            if variable is not None and incoming is not None:
                self.details[variable]["gradient"] = incoming
                self.arrivals.setdefault(variable, self.arrivals.get(place, len(self.passed)))
        for edge, g in zip(step.edges, step.grads):
            target = None if edge is None or g is None else self.place_of_edge(edge)
            if target is not None:
                self.arrivals.setdefault(target, len(self.passed))
        self.passed.append(place)

    def write_gradients(self) -> None:
        """Write the gradients of small variables into the picture, below their values."""
        for place, item in enumerate(self.builder.items):
            elements = self.details[place].get("gradient", {}).get("values")
            if elements is None or not item.lines or not item.lines[0].startswith("value "):
                continue
            text = nested_text(elements)
            text = text.strip("[]") if self.details[place]["gradient"]["size"] == 1 else text
            lines = (item.lines[0], f"grad {text}") if len(text) <= WIDEST else item.lines[:1]
            self.builder.items[place] = replace(item, lines=lines)

    def live(self) -> list[Any]:
        """Return per item from which step to which its value lives; the backward pass counts on from the forward."""
        at = {place: i for i, place in enumerate(self.order)}
        back = {place: len(self.order) + i for i, place in enumerate(self.passed)}
        end = len(self.order) + len(self.passed)
        spans: list[Any] = []
        made = {target: source for source, target, *_ in self.builder.edges if source in at}
        for place, item in enumerate(self.builder.items):
            if item.is_variable:
                spans.append([at[made[place]] if place in made else 0, end])
                continue
            needed = [at[u] for u in self.users.get(place, ()) if u in at]
            needed += [back.get(k, end) for k in self.keepers.get(place, ())]
            spans.append([at[place], max(needed, default=end)])
        return spans

    def gradient_spans(self) -> list[Any]:
        """Return per item from which step to which its gradient lives."""
        back = {place: len(self.order) + i for i, place in enumerate(self.passed)}
        end = len(self.order) + len(self.passed)
        spans: list[Any] = [None] * len(self.builder.items)
        for place, step in back.items():
            first = self.arrivals.get(place)
            start = step if first is None else min(step, first + len(self.order))
            spans[place] = [start, end if self.builder.items[place].is_variable else step]
        for place, first in self.arrivals.items():
            if spans[place] is None:
                spans[place] = [first + len(self.order), end]
        return spans

    def parameters(self) -> list[dict[str, Any]]:
        """Return the leaves that received a gradient, nearest to the inputs first, with the norms of value and it."""
        first = {p: min((self.details[u]["seq"] for u in self.users.get(p, ())), default=0) for p in self.passed}
        leaves = sorted((p for p in self.passed if self.builder.items[p].is_variable), key=lambda p: (first[p], p))
        return [
            {
                "item": place,
                "name": self.builder.items[place].title,
                "norm": self.details[place]["gradient"]["norm"],
                "nan": self.details[place]["gradient"]["nan"] + self.details[place]["gradient"]["inf"],
            }
            for place in leaves
        ]
