"""What the explorer knows about a graph: one backward pass, watched node by node and kept as plain data.

A snapshot holds no tensor and no node. Values of at most `FULL` elements are kept whole, larger ones as figures and a
histogram, so that its size depends on the number of nodes alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.viz.build import Builder
from sapwood.viz.collect import Names, roots_of, walk
from sapwood.viz.layout import Wire, layout
from sapwood.viz.measure import LABEL_SIZE, shape_of, text_width
from sapwood.viz.model import Item, Link
from sapwood.viz.page.recording import Recording
from sapwood.viz.taking import Taken

__all__ = ["Snapshot", "placed", "snapshot"]

# Graphs of more nodes than this are not laid out unasked.
LARGEST = 6_000


@dataclass(slots=True)
class Snapshot:
    """A graph, its values and its gradients, as data that `json` can write.

    data: items and links with their places, details per item, and the order of the forward and the backward pass.
    """

    data: dict[str, Any]

    def html(self) -> str:
        """Return the explorer: one page that needs no network."""
        from sapwood.viz.page import html

        return html(self)

    def __repr__(self) -> str:
        notes = f", {len(self.data['notes'])} notes" if self.data["notes"] else ""
        return f"Snapshot({len(self.data['items'])} items, {len(self.data['links'])} links{notes})"


def snapshot(
    loss: Any,
    *,
    names: Mapping[str, Any] | None = None,
    module: Any = None,
    values: bool = True,
    backward: bool = True,
    limit: int = LARGEST,
) -> Snapshot:
    """Walk the graph behind a tensor and run its backward pass once, noting what every node received and sent.

    The graph stays usable, no `.grad` changes, no hook runs, and the state of the random numbers is as before. The
    gradient of a root with several elements starts with ones.

    Args:
        loss: a tensor, several, or a function that computes one: module, value and time of every operation are then
            known; of a finished graph only what it saved.
        names: names of any tensors.
        module: names leaves, and groups operations by submodule.
        values: keep elements, figures and histograms.
        backward: run the backward pass.
        limit: the largest number of nodes to show.

    Raises:
        ArgumentError: `loss` is no tensor and computes none.
        ValueRangeError: the graph has more nodes than `limit`.
    """
    if module is not None and not hasattr(module, "named_modules"):
        raise ArgumentError(
            f"snapshot: expected a Module or None as module, got {type(module).__name__}; pass the model itself."
        )
    recording = Recording()
    if not hasattr(loss, "grad_fn") and callable(loss):
        loss = recording.run(loss, module, values=values)
    roots = roots_of(loss, "snapshot")
    nodes = walk(root.grad_fn for root in roots).nodes
    if len(nodes) > limit:
        raise ValueRangeError(
            f"snapshot: expected a graph of at most {limit} nodes, got {len(nodes)}; "
            "take a smaller model or fewer steps, or pass a larger limit and wait for the layout."
        )
    named = Names.of(names, module=module)
    builder = Builder(named, show_values=values)
    builder.add_graph(roots)
    taken = Taken(builder, roots, nodes, recording, values=values)
    taken.forward(module)
    if backward:
        taken.backward()
    taken.write_gradients()
    data = placed(builder.items, builder.links())
    data.update(
        details=taken.details,
        forward=taken.order,
        backward=taken.passed,
        live=taken.live(),
        gradients=taken.gradient_spans(),
        parameters=taken.parameters(),
        notes=taken.notes,
    )
    return Snapshot(data)


def placed(items: list[Item], links: list[Link]) -> dict[str, Any]:
    """Return items and links as plain data, with the places that the layout gives them."""
    shapes = [shape_of(item) for item in items]
    labels = [(text_width(link.label, LABEL_SIZE) + 8, LABEL_SIZE * 1.5) if link.label else None for link in links]
    wires = [Wire(link.source, link.target, label) for link, label in zip(links, labels)]
    plan = layout([(s.width, s.height) for s in shapes], wires, radii=[s.radius for s in shapes])
    rounded = [
        {
            "kind": item.kind,
            "title": item.title,
            "lines": list(item.lines),
            "w": round(shape.width, 1),
            "h": round(shape.height, 1),
            "r": round(shape.radius, 1),
            "x": round(box.x, 1),
            "y": round(box.y, 1),
        }
        for item, shape, box in zip(items, shapes, plan.boxes)
    ]
    return {
        "items": rounded,
        "links": [{"s": link.source, "t": link.target, "label": link.label} for link in links],
        "routes": [
            {"p": [[round(x, 1), round(y, 1)] for x, y in route.points], "links": list(route.wires)}
            for route in plan.routes
        ],
        "labels": [[round(box.x, 1), round(box.y, 1), wire] for box, wire in plan.labels],
        "width": round(plan.width, 1),
        "height": round(plan.height, 1),
        "details": [{} for _ in items],
        "forward": [],
        "backward": [],
        "live": [None] * len(items),
        "gradients": [None] * len(items),
        "parameters": [],
        "notes": [],
    }
