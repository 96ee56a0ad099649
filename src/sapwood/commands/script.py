"""Names in a user's script: `script.py:loss` runs the script and takes what it called `loss`."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["Problem", "example_of", "module_of", "named_in", "names_of"]


_namespaces: dict[str, dict[str, Any]] = {}
"""What the scripts that were run have left, by target."""


class Problem(Exception):
    """Something the user should mend; printed as one line, with an exit status."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status


def named_in(target: str, arguments: Sequence[str] = ()) -> Any:
    """Run a script as the main program and return what it has under a name.

    Args:
        target: "script.py:name"; the name may have dots.
        arguments: what the script finds in `sys.argv`.

    Raises:
        Problem: no such script or name, or the script raised an exception (whose traceback is printed).
    """
    file, colon, name = target.rpartition(":")
    if not colon or not name or not file:
        raise Problem(f"expected script.py:name, got {target!r}; say which variable of the script is meant")
    path = Path(file)
    if not path.is_file():
        raise Problem(f"there is no script {file!r}")
    before, folder = sys.argv[:], str(path.resolve().parent)
    sys.argv = [file, *arguments]
    sys.path.insert(0, folder)
    try:
        found = runpy.run_path(file, run_name="__main__")
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            raise Problem(f"{file} ended with {leaving.code!r}", 1) from None
        raise Problem(f"{file} ended itself before its names could be read; take sys.exit() away") from None
    except BaseException as problem:
        trace = problem.__traceback__
        while trace is not None and os.path.abspath(trace.tb_frame.f_code.co_filename) != str(path.resolve()):
            trace = trace.tb_next
        traceback.print_exception(problem.with_traceback(trace or problem.__traceback__))
        raise Problem(f"{file} raised {type(problem).__name__}", 1) from None
    finally:
        sys.argv = before
        sys.path.remove(folder)
    _namespaces[target] = found
    first, *rest = name.split(".")
    if first not in found:
        known = ", ".join(sorted(n for n, v in found.items() if not n.startswith("_") and not callable(v))[:12])
        raise Problem(f"{file} has nothing called {first!r}" + (f"; it has {known}" if known else ""))
    thing = found[first]
    for part in rest:
        if not hasattr(thing, part):
            raise Problem(f"{first} in {file} has no attribute {part!r}")
        thing = getattr(thing, part)
    return thing


def names_of(target: str, thing: Any) -> dict[str, Any]:
    """Return what a script calls its tensors, by name; the target's own name comes first."""
    import sapwood

    own = {target.rpartition(":")[2]: thing}
    tensors = {n: v for n, v in _namespaces.get(target, {}).items() if isinstance(v, sapwood.Tensor)}
    return own | {n: v for n, v in tensors.items() if v is not thing and not n.startswith("_")}


def module_of(target: str, thing: Any) -> Any:
    """Return the script's module that most leaves behind a tensor belong to, None without one."""
    from sapwood.viz.collect import is_accumulator, walk

    modules = [v for v in _namespaces.get(target, {}).values() if hasattr(v, "named_parameters")]
    modules = [m for m in modules if not isinstance(m, type)]
    if not modules or thing.grad_fn is None:
        return None
    leaves = {id(n.variable) for n in walk([thing.grad_fn]).nodes if is_accumulator(n)}
    counts = [sum(id(p) in leaves for p in m.parameters()) for m in modules]
    return modules[counts.index(max(counts))] if any(counts) else None


def example_of(text: str) -> Any:
    """Return normal random tensors of the sizes in a text: `8,784`, or several `8,784 8,10`.

    Raises:
        Problem: something that is no list of sizes.
    """
    import sapwood

    found = []
    for part in text.split():
        try:
            sizes = [int(n) for n in part.split(",")]
        except ValueError:
            raise Problem(f"--input takes sizes like 8,3,32,32, got {part!r}") from None
        if any(n < 0 for n in sizes):
            raise Problem(f"--input takes sizes, which are not negative, got {part!r}")
        found.append(sapwood.randn(*sizes))
    return tuple(found)
