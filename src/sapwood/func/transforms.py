"""`grad`, `vjp`, `jvp`, `linearize`: functions that differentiate functions, nested to any depth."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from .. import ops as _ops
from ..errors import GradError, SapwoodError, ShapeError
from ..state import GRAD, INFERENCE, get_mode, mode
from ..tensor import Tensor
from . import tree
from .captured import kept_from_writes
from .dual import DualTensor
from .level import level, vmaps
from .structure import fresh, in_wider_graph, live, ones_like, pull, settled, split, zeros_like

ops: Any = _ops


class TransformError(SapwoodError, ValueError):
    """An argument that a transform cannot take."""


class Recorded(NamedTuple):
    """One recorded evaluation of a function.

    Attributes:
        outs: the leaves of what it returned, still in the graph.
        ins: the fresh tensors to differentiate by.
        wider: whether the results belong to a graph beyond the function, so that gradients must be recorded.
    """

    outs: list[Any]
    spec: tree.Spec
    aux: Any
    ins: list[Tensor]
    in_spec: tree.Spec
    wider: bool

    def given(self, x: Any) -> Any:
        """Return a result as the caller gets it: in the wider graph if there is one, else outside any."""
        return x if self.wider or not isinstance(x, Tensor) else settled(x)

    def pull(self, cots: list[Tensor]) -> list[Tensor]:
        """Return the gradients, zeros for what has no influence."""
        found = pull(self.outs, self.ins, cots, self.wider and bool(get_mode() & GRAD))
        return [zeros_like(x) if g is None else g for g, x in zip(found, self.ins)]


def evaluate(name: str, func: Any, args: tuple[Any, ...], argnums: Any, kwargs: dict[str, Any], aux: bool) -> Recorded:
    """Call `func` with fresh tensors in place of the arguments to differentiate by."""
    several = tuple(args[i] for i in argnums)
    leaves, in_spec = tree.flatten(several)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise TransformError(f"{name}: every argument to differentiate by must be a tensor, got {type(x).__name__}")
    word = get_mode()
    levels = vmaps()
    ins = [fresh(x, levels) for x in leaves]
    own = dict(zip(argnums, tree.unflatten(ins, in_spec)))
    token = mode.set((word | GRAD) & ~INFERENCE)
    try:
        # PyTorch's linearize traces the function and lets it write to what it captures; so does this one.
        with nullcontext() if name == "linearize" else kept_from_writes(func, (args, kwargs)):
            made = func(*(own.get(i, a) for i, a in enumerate(args)), **kwargs)
    finally:
        mode.reset(token)
    extra = None
    if aux:
        if not isinstance(made, tuple) or len(made) != 2:
            raise GradError(f"{name}: with has_aux=True the function must return a pair (output, aux)")
        made, extra = made
    outs, spec = tree.flatten(made)
    tensors = [o for o in outs if isinstance(o, Tensor)]
    # Outside a recording caller the gradients are plain values, whatever they were computed from.
    wider = bool(word & GRAD) and in_wider_graph(tensors, ins)
    return Recorded(outs, spec, extra, ins, in_spec, wider)


def _settle_aux(name: str, run: Recorded) -> Any:
    def one(x: Any) -> Any:
        if not isinstance(x, Tensor):
            raise GradError(f"{name}: aux must hold tensors only, got {type(x).__name__}")
        return run.given(x)

    return tree.map_leaves(one, run.aux)


def positions(name: str, argnums: Any, count: int) -> tuple[int, ...]:
    """Return the places of the arguments to differentiate by, counted from the front.

    Raises:
        GradError: out of range, named twice, none, or of another type.
    """
    if isinstance(argnums, int):
        places: tuple[int, ...] = (argnums,)
    elif isinstance(argnums, tuple) and all(isinstance(i, int) for i in argnums):
        places = argnums
        if not places:
            raise GradError(f"{name}: argnums must name at least one argument")
    else:
        raise GradError(f"{name}: argnums must be an int or a tuple of ints, got {argnums!r}")
    for i in places:
        if not -count <= i < count:
            raise GradError(f"{name}: argnums names argument {i}, and there are {count} positional arguments")
    places = tuple(i % count for i in places)
    if len(set(places)) < len(places):
        raise GradError(f"{name}: argnums must name different arguments, got {argnums}")
    return places


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of `func`, and what `func` returns: (grad, value).

    Args:
        func: returns a tensor of no dimensions; with `has_aux` a pair of it and anything made of tensors.
        argnums: the positional arguments to differentiate by, an int or a tuple.
        has_aux: return (grad, (value, aux)).

    Raises:
        GradError: the function's result is no 0-dim tensor, or argnums do not fit.
    """

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        run = evaluate("grad", func, args, positions("grad", argnums, len(args)), kwargs, has_aux)
        out = run.outs[0] if run.spec.kind is None else tree.unflatten(run.outs, run.spec)
        if not isinstance(out, Tensor):
            raise GradError(f"grad: the function must return a tensor, got {type(out).__name__}")
        if out.ndim:
            raise GradError(
                f"grad: the function must return a tensor of no dimensions, got shape {tuple(out.shape)}; reduce it, "
                "or use vjp or jacrev"
            )
        if out.is_complex():
            raise GradError(
                f"grad: the function must return a real tensor, got {out.dtype.name}; use vjp with a cotangent"
            )
        one = ops.ones((), dtype=out.dtype)
        found = tree.unflatten(run.pull([one]), run.in_spec)
        result = found[0] if isinstance(argnums, int) else found
        value = run.given(out)
        return (result, (value, _settle_aux("grad", run))) if has_aux else (result, value)

    return differentiated


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of `func`; arguments as in `grad_and_value`.

    An outer `no_grad` is ignored, one inside `func` is obeyed.

    Example:
        >>> import sapwood
        >>> sapwood.func.grad(sapwood.sin)(sapwood.tensor(0.))
        tensor(1.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return differentiated


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return func(*primals) and the function that pulls a cotangent back to the primals.

    Returns:
        (output, vjp_fn), with `has_aux` (output, vjp_fn, aux). vjp_fn takes one cotangent per output tensor, or the
        nest of them, and returns a tuple with one gradient per primal.

    Raises:
        GradError: the function returns something that is no tensor.
        ShapeError: a cotangent does not have the shape of its output.
    """
    if not primals:
        func()
        raise TransformError("vjp: at least one primal is expected")
    run = evaluate("vjp", func, primals, tuple(range(len(primals))), {}, has_aux)
    if not run.outs:
        raise GradError("vjp: the function returned nothing to differentiate")
    for o in run.outs:
        if not isinstance(o, Tensor):
            raise GradError(f"vjp: the function must return tensors, got {type(o).__name__}")
    output = tree.unflatten([run.given(o) for o in run.outs], run.spec)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        cots, spec = tree.flatten(cotangents)
        if spec != run.spec and not (spec.leaves == run.spec.leaves == 1 and spec.kind in (tuple, None)):
            raise GradError(f"vjp: the cotangents must be nested as the outputs are, {run.spec}, got {spec}")
        for i, (c, o) in enumerate(zip(cots, run.outs)):
            if not isinstance(c, Tensor):
                raise GradError(f"vjp: cotangent {i} must be a tensor, got {type(c).__name__}")
            if c.shape != o.shape:
                raise ShapeError(f"vjp: cotangent {i} has shape {tuple(c.shape)}, its output {tuple(o.shape)}")
        return tree.unflatten(run.pull(cots), run.in_spec)

    return (output, vjp_fn, _settle_aux("vjp", run)) if has_aux else (output, vjp_fn)


def check_tangent(name: str, primal: Any, tangent: Any) -> None:
    """Refuse a tangent that cannot belong to its primal.

    Raises:
        ShapeError: of another shape.
        TransformError: one of the two is neither floating-point nor complex.
    """
    for what, x in (("primal", primal), ("tangent", tangent)):
        if not x.dtype.is_differentiable:
            raise TransformError(f"{name}: a {what} must be floating-point or complex, got {x.dtype.name}")
    if tangent.shape != primal.shape:
        raise ShapeError(
            f"{name}: a tangent must have its primal's shape, got {tuple(tangent.shape)} for {tuple(primal.shape)}"
        )


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:  # fmt: skip
    """Return func(*primals) and its derivative along the tangents.

    Args:
        primals, tangents: tuples of one structure.
        strict: refuse a result that does not depend on the primals, whose tangent would be zeros.

    Returns:
        (output, tangent of the output), with `has_aux` also aux.

    Raises:
        GradError: the arguments are no tuples of one structure.
        ShapeError: a tangent does not have its primal's shape.
    """
    if not isinstance(primals, tuple):
        raise GradError(f"jvp: primals must be a tuple, as in func(*primals), got {type(primals).__name__}")
    points, spec = tree.flatten(primals)
    moves, other = tree.flatten(tangents)
    if not isinstance(tangents, tuple) or spec != other:
        raise GradError(f"jvp: primals and tangents must be nested alike, got {spec} and {other}")
    if not points or not all(isinstance(x, Tensor) for x in (*points, *moves)):
        raise GradError("jvp: primals and tangents must hold tensors, and at least one")
    for p, t in zip(points, moves):
        check_tangent("jvp", p, t)
    with level() as own:
        duals = [DualTensor(live(p), t, own) for p, t in zip(points, moves)]
        with kept_from_writes(func, primals):
            made = func(*tree.unflatten(duals, spec))
        aux = None
        if has_aux:
            if not isinstance(made, tuple) or len(made) != 2:
                raise GradError("jvp: with has_aux=True the function must return a pair (output, aux)")
            made, aux = made
            aux = tree.map_leaves(lambda x: split(x, own)[0] if isinstance(x, Tensor) else x, aux)
        outs, out_spec = tree.flatten(made)
        values, derivatives = [], []
        for o in outs:
            if not isinstance(o, Tensor):
                raise GradError(f"jvp: the function must return tensors, got {type(o).__name__}")
            value, tangent = split(o, own)
            if tangent is None:
                if strict:
                    raise GradError("jvp: an output does not depend on the primals, and strict=True forbids that")
                tangent = ops.zeros_like(value)
            values.append(value)
            derivatives.append(tangent)
    results = tree.unflatten(values, out_spec), tree.unflatten(derivatives, out_spec)
    return (*results, aux) if has_aux else results


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return func(*primals) and its derivative there, as a linear function of the tangents.

    The function is evaluated once; each call of the derivative replays two pullbacks.
    """
    run = evaluate("linearize", func, primals, tuple(range(len(primals))), {}, False)
    word = get_mode()
    token = mode.set(word | GRAD)
    try:
        cots = [fresh(ones_like(o), vmaps()) for o in run.outs]
        rows = pull(run.outs, run.ins, cots, True)
    finally:
        mode.reset(token)
    output = tree.unflatten([run.given(o) for o in run.outs], run.spec)

    def derivative(*tangents: Any) -> Any:
        moves, spec = tree.flatten(tangents)
        if spec != run.in_spec:
            raise GradError(f"linearize: tangents must be nested as the primals are, {run.in_spec}, got {spec}")
        for i, (t, x) in enumerate(zip(moves, run.ins)):
            if t.shape != x.shape or t.dtype is not x.dtype:
                raise ShapeError(
                    f"linearize: tangent {i} is {t.dtype.name} {tuple(t.shape)}, its primal {x.dtype.name} "
                    f"{tuple(x.shape)}"
                )
        pairs = [(r, t) for r, t in zip(rows, moves) if r is not None]
        wider = run.wider and bool(get_mode() & GRAD)
        found = pull([r for r, _ in pairs], cots, [t for _, t in pairs], wider) if pairs else [None] * len(cots)
        return tree.unflatten([zeros_like(o) if f is None else f for f, o in zip(found, run.outs)], run.spec)

    return output, derivative
