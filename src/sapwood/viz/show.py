"""The explorer on screen: written to a file and opened in the browser, or shown inside a notebook."""

from __future__ import annotations

import importlib
import os
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import Any

from sapwood.errors import ValueRangeError
from sapwood.files import write_text
from sapwood.viz.snapshot import Snapshot, snapshot

__all__ = ["save", "show"]


def show(loss: Any, **options: Any) -> Path:
    """Open the explorer on the graph behind a tensor: in the browser, in a notebook below the cell.

    Args:
        loss: a tensor, several, a function that computes one, or a Snapshot.
        options: `names`, `module`, `values`, `backward` as in `snapshot`.

    Returns:
        The file that holds the page.
    """
    handle, name = tempfile.mkstemp(prefix="sapwood-", suffix=".html")
    os.close(handle)
    path = save(loss, name, **options)
    if in_notebook():
        display: Any = importlib.import_module("IPython.display")
        # As raw data: IPython's HTML class warns of every frame, and its IFrame shows addresses only.
        shown = {"text/html": frame(path.read_text(encoding="utf-8")), "text/plain": f"Graph explorer, in {path}"}
        display.display(shown, raw=True)
    else:
        webbrowser.open(path.resolve().as_uri())
    return path


def save(loss: Any, path: str | Path, **options: Any) -> Path:
    """Write the explorer to a file; it is there whole or not at all.

    Raises:
        ValueRangeError: the path does not end in .html or .htm.
        OSError: the folder is not there or cannot be written to.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueRangeError(f"save: expected a path ending in .html, got {str(path)!r}; give it this suffix.")
    taken = loss if isinstance(loss, Snapshot) else snapshot(loss, **options)
    text = taken.html()
    write_text(path, text)
    return path


def frame(page: str, height: int = 640) -> str:
    """Return a page as an inline frame, which may run its own script and save files, and nothing else."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts allow-downloads" title="Graph explorer" '
        f'style="width:100%;height:{height}px;border:0;border-radius:8px"></iframe>'
    )


def in_notebook() -> bool:
    """Tell whether a notebook's kernel runs this program."""
    import sys

    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")
