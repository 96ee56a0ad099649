"""What a notebook shows of tensors and modules, through IPython's display protocol."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

__all__ = ["module_html", "tensor_html"]

LARGEST = 64
"""Rows and columns of a picture of a matrix, at most; larger ones are thinned out."""


def tensor_html(tensor: Any) -> str | None:
    """Return a tensor's text with its figures, and a picture of a matrix; None where text alone says everything."""
    a = tensor.detach()._array
    if a.size < 17 or a.dtype.kind not in "fiubV":
        return None
    wide = np.asarray(a, np.float64)
    finite = wide[np.isfinite(wide)]
    facts = [f"{tensor.dtype.name}", f"shape {tuple(tensor.shape)}"]
    if finite.size:
        facts += [f"{finite.min():.4g} … {finite.max():.4g}", f"mean {finite.mean():.4g} ± {finite.std():.4g}"]
    if finite.size < wide.size:
        facts.append(f"{wide.size - finite.size} not finite")
    if tensor.requires_grad:
        facts.append("requires grad" if tensor.grad_fn is None else f"grad_fn {tensor.grad_fn.name()}")
    picture = _picture(wide) if wide.ndim == 2 and min(wide.shape) > 1 and finite.size else ""
    return (
        f'<div><div style="opacity:.7;font-size:.9em">{escape(" · ".join(facts))}</div>{picture}'
        f"<pre>{escape(repr(tensor))}</pre></div>"
    )


def _picture(a: Any) -> str:
    """Return a matrix as squares between blue (least) and red (most), white at zero where both signs occur."""
    steps = [-(-n // LARGEST) for n in a.shape]
    a = a[:: steps[0], :: steps[1]]
    finite = a[np.isfinite(a)]
    most = float(np.abs(finite).max()) or 1.0 if finite.size else 1.0
    rows, columns = a.shape
    cell = max(2, min(12, 320 // max(rows, columns)))
    squares = []
    for i in range(rows):
        for j in range(columns):
            v = a[i, j] / most
            if not np.isfinite(v):
                colour = "#000"
            else:
                s = round(255 * (1 - abs(v)))
                colour = f"#ff{s:02x}{s:02x}" if v > 0 else f"#{s:02x}{s:02x}ff"
            squares.append(f'<rect x="{j * cell}" y="{i * cell}" width="{cell}" height="{cell}" fill="{colour}"/>')
    return (
        f'<svg width="{columns * cell}" height="{rows * cell}" role="img" aria-label="values of the matrix" '
        f'shape-rendering="crispEdges">{"".join(squares)}</svg>'
    )


def module_html(module: Any, name: str = "") -> str:
    """Return a module as a tree that folds, with the parameters of each part."""
    own = [
        f"{n} {tuple(p.shape)}" + ("" if p.requires_grad else " frozen")
        for n, p in module.named_parameters(recurse=False)
    ]
    count = sum(p.numel() for p in module.parameters())
    extra = module.extra_repr() if hasattr(module, "extra_repr") else ""
    title = f"{escape(name)}: " if name else ""
    head = f"{title}<b>{escape(type(module).__name__)}</b>({escape(extra)})"
    head += f' <span style="opacity:.6">{count:,} parameters</span>' if count else ""
    inner = "".join(f'<div style="margin-left:1.4em;opacity:.75">{escape(line)}</div>' for line in own)
    inner += "".join(
        f'<div style="margin-left:1.4em">{module_html(child, n)}</div>' for n, child in module.named_children()
    )
    if not inner:
        return f"<div>{head}</div>"
    return f"<details{' open' if not name else ''}><summary>{head}</summary>{inner}</details>"
