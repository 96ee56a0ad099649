"""The page that shows a run: plain HTML, CSS and JavaScript in one answer, which asks for nothing but its data."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from sapwood.viz.page import fingerprint

__all__ = ["page"]

SCRIPTS = ("numbers.js", "plot.js", "metrics.js", "layers.js", "ridges.js", "main.js")
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; img-src data:; "
    "connect-src 'self'; style-src {style}; script-src {script}"
)


@cache
def page() -> tuple[str, str]:
    """Return the page, and the policy that lets it run its own script and style and nothing else."""
    style = part("style.css")
    script = '"use strict";\n' + "\n".join(map(part, SCRIPTS))
    head, _, rest = part("page.html").partition("%STYLE%")
    middle, _, tail = rest.partition("%SCRIPT%")
    policy = POLICY.format(style=fingerprint(style), script=fingerprint(script))
    return head + style + middle + script + tail, policy


def part(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
