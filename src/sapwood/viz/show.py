"""`show` and `save`: a graph in the browser, a notebook, or a file."""

from __future__ import annotations

import html
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sapwood.errors import ValueRangeError
from sapwood.viz.page import page_text
from sapwood.viz.snapshot import snapshot

__all__ = ["Page", "save", "show"]


class Page:
    """An explorer page: its text, and where it was written."""

    def __init__(self, text: str, path: Path | None = None) -> None:
        self.text = text
        self.path = path

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all, and return the path.

        Raises:
            ValueRangeError: the path does not end in .html or .htm.
        """
        path = Path(path)
        if path.suffix.lower() not in (".html", ".htm"):
            raise ValueRangeError(f"save: expected a path ending in .html, got {str(path)!r}; give it this suffix")
        handle, temporary = tempfile.mkstemp(dir=path.parent or ".", prefix=".graph", suffix=".html")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self.text)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        self.path = path
        return path

    def _repr_html_(self) -> str:
        inside = html.escape(self.text, quote=True)
        return f'<iframe srcdoc="{inside}" style="width:100%;height:640px;border:0;border-radius:8px"></iframe>'

    def __repr__(self) -> str:
        return f"Page({str(self.path) if self.path else f'{len(self.text)} characters'})"


def page(tensors: Any, **options: Any) -> Page:
    """Return the explorer page of the graph behind `tensors`; options as for `snapshot`."""
    return Page(page_text(snapshot(tensors, **options)))


def show(
    tensors: Any,
    *,
    module: Any = None,
    names: Mapping[str, Any] | None = None,
    open: bool = True,
    **options: Any,
) -> Page:
    """Show the graph behind a tensor in the browser: every value, gradient, formula and source line.

    The page is one file that needs no network. In a notebook the result shows itself.

    Args:
        tensors: one tensor or several: the roots, usually a loss; or a function that computes it, as in
            `show(lambda: loss_of(model(x), y), module=model)`, which tells the submodule of every operation.
        module: names parameters, and groups operations by submodule.
        names: names of further tensors, as in `names=dict(a=a, b=b)`.
        open: start the browser; without, the page is only written.
        options: `values=False` leaves out numbers, `backward=False` gradients; `direction="LR"` runs left to right.

    Returns:
        The page, with `.path` and `.save(path)`.

    Raises:
        GradError: the tensor has no graph.
    """
    found = page(tensors, module=module, names=names, **options)
    folder = Path(tempfile.mkdtemp(prefix="sapwood-"))
    found.save(folder / "graph.html")
    if open:
        import webbrowser

        assert found.path is not None
        webbrowser.open(found.path.as_uri())
    return found


def save(tensors: Any, path: str | Path, **options: Any) -> Path:
    """Write the explorer page of the graph behind `tensors` to a file; options as for `show`."""
    return page(tensors, **options).save(path)
