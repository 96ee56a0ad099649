"""Whether a model follows its dynamic sizes: it is run on the larger examples, and compared with the function."""

from __future__ import annotations

from typing import Any

import numpy as np

from sapwood.errors import ExportError
from sapwood.export.onnx.sizes import Runs

__all__ = ["tried"]

NEAR = 1e-2
"""What results may differ by, relative to the largest: a size that is not followed shows, rounding does not."""


def tried(onnx: Any, model: Any, runs: Runs) -> None:
    """Run a model on other sizes, by onnxruntime where it is installed.

    Raises:
        ExportError: it fails there, or gives something else than the function.
    """
    import sapwood
    from sapwood.graph.run import run

    session = _session(model)
    if session is None:
        return
    random = any(c.op.kind == "draw" for c in runs.others[0].calls)
    for graph, inputs in zip(runs.others, runs.inputs):
        with sapwood.no_grad():
            wanted: list[Any] = []
            _flat(run(graph, *inputs), wanted)
        names = [i.name for i in session.get_inputs()]
        given = {i.name: t.detach().numpy() for i, t in zip(model.graph.input, inputs) if i.name in names}
        sizes = ", ".join(f"{w} = {inputs[i].shape[a]}" for w, (i, a) in runs.places.items())
        try:
            found = session.run(None, given)
        except Exception as problem:
            raise ExportError(
                f"export: with {sizes} the model fails{_where(model, str(problem))}; export it with fixed sizes"
            ) from problem
        for name, f, w in zip((o.name for o in model.graph.output), found, wanted):
            w = w.detach().numpy()
            if f.shape != w.shape or not (random or _near(f, w)):
                raise ExportError(
                    f"export: with {sizes} the model gives another {name} than the function: something in it follows "
                    "a dynamic size that ONNX was told as a fixed number; export it with fixed sizes"
                )


def _session(model: Any) -> Any:
    """Return what runs the model, or None if nothing does."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        # It knows not every operator for every element type.
        return None


def _flat(thing: Any, found: list[Any]) -> None:
    import sapwood
    from sapwood.graph.ir import flatten

    flatten(thing, found, lambda t: isinstance(t, sapwood.Tensor))


def _near(found: Any, wanted: Any) -> bool:
    if wanted.dtype.kind not in "fV":
        return bool((found == wanted).all())
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    scale = float(np.abs(b[finite]).max(initial=1e-30))
    return bool(np.allclose(a, b, NEAR, NEAR * scale, equal_nan=True))


def _where(model: Any, text: str) -> str:
    """Return the place of the node that an error's text names."""
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    for node in sorted(nodes, key=lambda n: -len(n.name)):
        if node.name and f"'{node.name}'" in text and node.doc_string:
            return f" in {node.op_type} at {node.doc_string}"
    return ""
