"""A forward pass that is watched: the module, the value and the time of every operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from sapwood.viz.page.figures import summary

__all__ = ["Recording"]


@dataclass(slots=True)
class Recording:
    """What was seen of each node: (node, time in ns, figures of its first output), by the node's identity."""

    seen: dict[int, tuple[Any, int, dict[str, Any]]] = field(default_factory=dict)
    took: int = 0

    def run(self, function: Callable[[], Any], module: Any, *, values: bool) -> Any:
        """Call the function once and return its result."""
        from sapwood.autograd.modules import Paths
        from sapwood.autograd.observe import observing, watch_calls

        paths = Paths(module)

        def timed(op: Any, name: str, inputs: Any, attrs: Any, compute: Callable[[], Any]) -> Any:
            began = perf_counter_ns()
            result = compute()
            self.took = perf_counter_ns() - began
            return result

        def note(op: Any, inputs: Any, outputs: Any) -> None:
            for tensor in outputs:
                node = tensor.grad_fn
                if node is None or id(node) in self.seen:
                    continue
                self.seen[id(node)] = node, self.took, summary(tensor._array, full=values)
                path = paths.now()
                if path:
                    node.extra = (node.extra or {}) | {"module": path}

        with paths, observing(timed), watch_calls(note):
            return function()
