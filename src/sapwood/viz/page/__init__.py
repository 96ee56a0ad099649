"""The explorer: a page of plain HTML, CSS and JavaScript with the graph's data in it, which loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

__all__ = ["html"]

SCRIPTS = ("layout.js", "scene.js", "paint.js", "details.js", "flow.js", "timeline.js", "main.js")
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src {style}; script-src {script}"


def html(source: Any) -> str:
    """Return the page for a `Snapshot`, or for a `Drawing`, of which it shows the picture alone."""
    from sapwood.viz.snapshot import Snapshot, placed

    data = source.data if isinstance(source, Snapshot) else placed(source.items, source.links)
    style = part("style.css")
    script = '"use strict";\n' + "\n".join(map(part, SCRIPTS))
    page = part("page.html")
    for mark, text in (
        ("%POLICY%", POLICY.format(style=fingerprint(style), script=fingerprint(script))),
        ("%STYLE%", style),
        ("%SCRIPT%", script),
        ("%DATA%", embedded(data)),
    ):
        head, _, tail = page.rpartition(mark) if mark == "%DATA%" else page.partition(mark)
        page = head + text + tail
    return page


def part(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def fingerprint(text: str) -> str:
    """Return how a content security policy names one inline text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Any) -> str:
    """Return data as JSON that cannot end the script element it stands in, whatever text is in it."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
