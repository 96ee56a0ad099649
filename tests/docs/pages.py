"""Run the programs of a page and return what they print, the way a reader would see it."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.M | re.S)


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the (kind, text) of every block of a page."""
    return BLOCK.findall(page)


def output(program: str) -> str:
    """Return what a program prints, and the error it ends with, in the form of a traceback's last lines."""
    linecache.cache["example.py"] = len(program), None, program.splitlines(True), "example.py"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(program, "example.py", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
        except Exception as problem:
            notes = "".join(f"{n}\n" for n in getattr(problem, "__notes__", ()))
            print(f"{type(problem).__name__}: {problem}\n{notes}", end="")
    return printed.getvalue()


def filled(page: str) -> str:
    """Return the page with the text blocks replaced by what the programs before them print."""
    last = ""

    def fill(block: re.Match[str]) -> str:
        nonlocal last
        if block[1] == "python":
            last = output(block[2])
            return block[0]
        return f"```text\n{last}```"

    return BLOCK.sub(fill, page)
