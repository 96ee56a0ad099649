"""Jacobians, Hessians and their products with vectors, of a function at a point.

Every function takes `func`, its inputs (a tensor or a tuple), and

    create_graph  record the results, so that they can be differentiated again
    strict        refuse results that do not depend on the inputs, instead of returning zeros
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops as _ops
from ..errors import ArgumentError, GradError, MissingError, ShapeError
from ..func.jacobians import basis, jacfwd
from ..func.level import vmaps
from ..func.structure import fresh, ones_like, plain, pull, settled, zeros_like
from ..func.vmap import vmap
from ..state import GRAD, mode
from ..tensor import Tensor

ops: Any = _ops
Tensors = tuple[Tensor, ...]


class StrategyError(GradError, AssertionError):
    """A strategy that does not exist."""


def _tuple(name: str, what: str, x: Any) -> tuple[Tensors, bool]:
    """Return tensors as a tuple, and whether they came as one.

    Raises:
        ArgumentError: anything but a tensor or a tuple of tensors.
    """
    if isinstance(x, Tensor):
        return (x,), False
    if not isinstance(x, tuple) or not all(isinstance(m, Tensor) for m in x):
        raise ArgumentError(f"{name}: {what} must be a tensor or a tuple of tensors, got {type(x).__name__}")
    return x, True


def _packed(x: Any, several: bool) -> Any:
    return tuple(x) if several else x[0]


class _Run:
    """One evaluation of a function at fresh inputs, recorded."""

    def __init__(self, name: str, func: Any, inputs: Any, create: bool, strict: bool) -> None:
        self.name, self.create, self.strict = name, create, strict
        given, self.in_tuple = _tuple(name, "inputs", inputs)
        self.ins = [fresh(x if create else settled(x), vmaps()) for x in given]
        made = func(*self.ins)
        self.outs, self.out_tuple = _tuple(name, "what the function returns", made)
        if strict:
            for i, o in enumerate(self.outs):
                if not _recorded(o):
                    raise GradError(f"{name}: output {i} does not depend on the inputs, which strict=True forbids")

    def vector(self, v: Any, like: list[Tensor] | Tensors, several: bool, what: str) -> list[Tensor]:
        """Return a vector given by the user, checked against what it multiplies; ones for a single number."""
        if v is None:
            if len(like) != 1 or like[0].numel() != 1 or several:
                raise GradError(f"{self.name}: v may be left out only where {what} is a single tensor of one element")
            return [ones_like(like[0])]
        vs, v_tuple = _tuple(self.name, "v", v)
        if len(vs) != len(like) or (v_tuple and not several):
            raise GradError(f"{self.name}: v must match {what}, {len(like)} tensors are expected, got {len(vs)}")
        for i, (a, b) in enumerate(zip(vs, like)):
            if a.shape != b.shape:
                raise ShapeError(f"{self.name}: v[{i}] must have shape {tuple(b.shape)}, got {tuple(a.shape)}")
        return [a if self.create else settled(a) for a in vs]

    def pull(self, outs: Any, ins: Any, cots: Any, create: bool, what: str = "") -> list[Tensor]:
        """Return gradients; zeros for what has no influence, an error under strict."""
        found = pull(outs, ins, cots, create)
        if self.strict:
            for j, g in enumerate(found):
                if g is None or (create and what and not _recorded(g)):
                    raise GradError(
                        f"{self.name}: {what or 'the output'} does not depend on input {j}; strict=True forbids that"
                    )
        return [zeros_like(x) if g is None else g for g, x in zip(found, ins)]

    def given(self, x: Any) -> Any:
        """Return results as the caller gets them."""
        return [y if self.create else settled(y) for y in x]


def _recorded(x: Any) -> bool:
    return any(t._node is not None for t in plain(x))


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Record inside, whatever the caller's grad mode."""
    import functools

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        token = mode.set(mode.get() | GRAD)
        try:
            return function(*args, **kwargs)
        finally:
            mode.reset(token)

    return recorded


@_recording
def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return func(*inputs) and vᵀ J.

    Args:
        v: like the outputs; may be left out for an output of one element.
    """
    run = _Run("vjp", func, inputs, create_graph, strict)
    vs = run.vector(v, run.outs, run.out_tuple, "the output")
    grads = run.pull(run.outs, run.ins, vs, create_graph)
    return _packed(run.given(run.outs), run.out_tuple), _packed(run.given(grads), run.in_tuple)


@_recording
def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return func(*inputs) and J v, by two pullbacks; `func.jvp` computes it in one pass.

    Args:
        v: like the inputs; may be left out for an input of one element.
    """
    run = _Run("jvp", func, inputs, create_graph, strict)
    vs = run.vector(v, run.ins, run.in_tuple, "the input")
    cots = [fresh(ones_like(o), vmaps()) for o in run.outs]
    rows = run.pull(run.outs, run.ins, cots, True)
    moved = pull(rows, cots, vs, create_graph)
    results = [zeros_like(o) if m is None else m for m, o in zip(moved, run.outs)]
    return _packed(run.given(run.outs), run.out_tuple), _packed(run.given(results), run.out_tuple)


def _scalar(run: _Run) -> None:
    if run.out_tuple:
        raise GradError(f"{run.name}: the function must return a single tensor, got a tuple")
    if run.outs[0].numel() != 1:
        raise GradError(f"{run.name}: the function must return one element, got shape {tuple(run.outs[0].shape)}")


@_recording
def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return func(*inputs), a single number, and vᵀ H."""
    run = _Run("vhp", func, inputs, create_graph, strict)
    _scalar(run)
    vs = run.vector(v, run.ins, run.in_tuple, "the input")
    first = run.pull(run.outs, run.ins, [ones_like(run.outs[0])], True, "the gradient")
    second = run.pull(first, run.ins, vs, create_graph)
    return run.given(run.outs)[0], _packed(run.given(second), run.in_tuple)


@_recording
def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return func(*inputs), a single number, and H v; H is symmetric, so `vhp` is the same and faster."""
    run = _Run("hvp", func, inputs, create_graph, strict)
    _scalar(run)
    vs = run.vector(v, run.ins, run.in_tuple, "the input")
    cot = fresh(ones_like(run.outs[0]), vmaps())
    first = run.pull(run.outs, run.ins, [cot], True, "the gradient")
    along = [fresh(zeros_like(g), vmaps()) for g in first]
    second = run.pull(first, run.ins, along, True)
    found = pull(second, along, vs, create_graph)
    results = [zeros_like(x) if f is None else f for f, x in zip(found, run.ins)]
    return run.given(run.outs)[0], _packed(run.given(results), run.in_tuple)


def _check_strategy(name: str, strategy: str, vectorize: bool, create: bool, strict: bool) -> bool:
    """Return whether forward mode is asked for."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise StrategyError(f"{name}: the strategy must be 'forward-mode' or 'reverse-mode', got {strategy!r}")
    if strategy == "reverse-mode":
        if strict and vectorize:
            raise GradError(f"{name}: strict=True and vectorize=True do not go together; drop one of them")
        return False
    if create:
        raise MissingError(
            f"{name}: create_graph=True needs strategy='reverse-mode'; func.jacfwd can be differentiated"
        )
    if strict:
        raise GradError(f"{name}: strict=True needs strategy='reverse-mode'")
    if not vectorize:
        raise MissingError(f"{name}: strategy='forward-mode' needs vectorize=True")
    return True


@_recording
def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of `func` at `inputs`.

    Args:
        vectorize: compute all rows at once.
        strategy: "reverse-mode", a row per output element, or, with `vectorize`, "forward-mode", a column per input
            element.

    Returns:
        A tensor of shape output.shape + input.shape; a tuple per input and per output where these are tuples.
    """
    if _check_strategy("jacobian", strategy, vectorize, create_graph, strict):
        return _jacobian_forward(func, inputs)
    run = _Run("jacobian", func, inputs, create_graph, strict)
    blocks = []
    for i, out in enumerate(run.outs):
        if vectorize:
            (units,) = basis([out])
            rows = vmap(lambda c, out=out: tuple(run.pull([out], run.ins, [c], create_graph)))(units)
        else:
            (units,) = basis([out])
            each = [run.pull([out], run.ins, [u], create_graph, f"the jacobian of output {i}") for u in units.unbind(0)]
            rows = [ops.stack(list(column)) for column in zip(*each)] if each else [
                ops.zeros((0, *x.shape), dtype=x.dtype) for x in run.ins
            ]  # fmt: skip
        found = [r.reshape((*out.shape, *x.shape)) for r, x in zip(rows, run.ins)]
        blocks.append(_packed(run.given(found), run.in_tuple))
    return _packed(blocks, run.out_tuple)


def _jacobian_forward(func: Any, inputs: Any) -> Any:
    given, several = _tuple("jacobian", "inputs", inputs)

    def checked(*xs: Tensor) -> Any:
        outs = func(*xs)
        _tuple("jacobian", "what the function returns", outs)
        return outs

    places = tuple(range(len(given)))
    return _settled(jacfwd(checked, places if several else 0)(*map(settled, given)))


def _settled(x: Any) -> Any:
    return tuple(map(_settled, x)) if isinstance(x, tuple) else settled(x)


@_recording
def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a function of one number: the Jacobian of its gradient.

    Args:
        vectorize, outer_jacobian_strategy: as in `jacobian`, for the Jacobian of the gradient.

    Returns:
        A tensor of shape input.shape + input.shape; a tuple of tuples for a tuple of inputs.
    """
    _, several = _tuple("hessian", "inputs", inputs)
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise StrategyError(
            f"hessian: outer_jacobian_strategy must be 'forward-mode' or 'reverse-mode', got "
            f"{outer_jacobian_strategy!r}"
        )

    def gradient(*xs: Tensor) -> Any:
        run = _Run("hessian", func, xs, True, strict)
        _scalar(run)
        found = run.pull(run.outs, run.ins, [ones_like(run.outs[0]).reshape(run.outs[0].shape)], True, "the gradient")
        return tuple(found) if several else found[0]

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
