"""The explorer: one HTML file that shows a graph, without network, server or any other file."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

__all__ = ["page_text"]

SCRIPTS = ("layout.js", "graph.js", "view.js", "steps.js", "panel.js", "main.js")


def page_text(data: dict[str, Any]) -> str:
    """Return the explorer's page for a snapshot (see `snapshot`)."""
    folder = files(__name__)

    def read(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    # Inside a script element nothing but "</" and "<!" could end or change it.
    inside = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    inside = inside.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    parts = {
        "%TITLE%": escape(str(data["title"])), "%STYLE%": read("style.css"), "%DATA%": inside,
        "%SCRIPT%": "\n".join(read(name) for name in SCRIPTS),
    }  # fmt: skip
    page = read("page.html")
    # One pass, so that nothing in the data is taken for a place to fill.
    for mark in parts:
        before, _, after = page.partition(mark)
        parts[mark] = before + parts[mark]
        page = after
    return "".join(parts.values()) + page
