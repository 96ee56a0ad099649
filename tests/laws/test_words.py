"""The law of words: public names are documented, and the examples in docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import warnings

import pytest

import sapwood
from sapwood.kernels import builtin
from sapwood.ops.declare import methods, public, registry

sapwood.ops.complete()


def modules():
    """Return the names of all modules of the package but the command line."""
    found = [m.name for m in pkgutil.walk_packages(sapwood.__path__, "sapwood.")]
    return sorted(n for n in found if not n.endswith("__main__"))


def documented():
    """Return (name, object) for everything with a docstring of its own: functions, classes, methods, ops."""
    found = {f"ops.{n}": o for n, o in registry.items()}
    found |= {f"function {n}": f for n, f in public.items() if not hasattr(f, "op")}
    found |= {f"method {n}": f for n, f in methods.items() if getattr(f, "__doc__", None)}
    for name in modules():
        module = importlib.import_module(name)
        found[name] = module
        for member, value in vars(module).items():
            own = getattr(value, "__module__", None) == name
            if own and (inspect.isclass(value) or inspect.isfunction(value)):
                found[f"{name}.{member}"] = value
                if inspect.isclass(value):
                    found |= {
                        f"{name}.{member}.{n}": v for n, v in vars(value).items() if inspect.isfunction(v) and v.__doc__
                    }
    return found


def own_text(thing):
    """Return a docstring that is the thing's own, not one it inherits."""
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


EXAMPLES = {n: o for n, o in documented().items() if ">>>" in own_text(o)}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_print_what_they_say(name):
    if name.startswith("sapwood.kernels") and not builtin.available():
        pytest.skip(builtin.why_not())
    parser = doctest.DocTestParser()
    thing = EXAMPLES[name]
    names = {"sapwood": sapwood, getattr(thing, "__name__", "it"): thing, "__name__": "__main__"}
    test = parser.get_doctest(own_text(thing), names, name, None, 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    sapwood.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        runner.run(test, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)


def test_there_are_examples():
    assert len(EXAMPLES) > 20
