"""`gradcheck` and `gradgradcheck`: analytical gradients against difference quotients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError, GradError
from ..tensor import Tensor, wrap
from ..warned import warn
from .mode import no_grad
from .run import grad

Array = np.ndarray[Any, Any]


class GradcheckError(GradError):
    """An analytical gradient that the difference quotient contradicts."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the Jacobian that backward gives with central difference quotients.

    Args:
        func: takes the inputs, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple; those that require grad are varied. float64 or complex128, or the quotient's own
            error exceeds the tolerance.
        eps: the step of the quotient.
        atol, rtol: absolute and relative tolerance per entry.
        nondet_tol: how much two backward passes on the same graph may differ.
        check_backward_ad, check_forward_ad: which modes to check.
        check_batched_grad, check_batched_forward_grad: check that a batch of gradients, computed at once under vmap,
            equals the same gradients computed one by one.
        fast_mode: compare one random direction instead of every entry.

    Returns:
        True; False for a mismatch if `raise_exception` is off.

    Raises:
        GradcheckError: a mismatch, with both Jacobians.
        ValueError: no input requires grad.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    varied = [i for i, t in enumerate(given) if isinstance(t, Tensor) and t.requires_grad]
    if not varied:
        raise ValueError("gradcheck: no input requires grad, so there is nothing to check")
    for i in varied:
        a = given[i]._array
        if a.dtype.char not in "dD":
            warn(
                f"gradcheck: input {i} is {given[i].dtype.name}, whose rounding the difference quotient mistakes for a "
                "wrong gradient; convert it with tensor.double()"
            )
        if 0 in a.strides and a.size > 1:
            raise GradError(f"gradcheck: input {i} shares memory between elements (it was expanded); clone it first")
    try:
        outputs = _outputs(func, given)
        if not outputs:
            _check_constant(func, given, varied, eps)
        for k, out in enumerate(outputs):
            for i in varied:
                if check_backward_ad:
                    _check_pair(func, given, k, i, out, eps, atol, rtol, nondet_tol, fast_mode)
                if check_forward_ad or check_batched_grad or check_batched_forward_grad:
                    from . import check_modes

                    if check_forward_ad:
                        check_modes.check_forward(func, given, k, i, eps, atol, rtol)
                    if check_batched_grad:
                        check_modes.check_batched(out, given[i], k, i)
                    if check_batched_forward_grad:
                        check_modes.check_batched_forward(func, given, k, i)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare second derivatives with difference quotients of the first ones; arguments as in `gradcheck`.

    Args:
        grad_outputs: the cotangents at which to differentiate; random ones if left out.
        check_rev_over_rev, check_fwd_over_rev: which modes to differentiate the gradient in.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    varied = [i for i, t in enumerate(given) if isinstance(t, Tensor) and t.requires_grad]
    outputs = _outputs(func, given)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        cotangents = tuple(wrap(_random_like(rng, o._array)).requires_grad_() for o in outputs)
    else:
        cotangents = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)

    def first(*everything: Any) -> tuple[Tensor, ...]:
        args, gs = everything[: len(given)], everything[len(given) :]
        outs = _outputs(func, args)
        found = grad(outs, [args[i] for i in varied], gs, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    if not first(*given, *cotangents):
        return True
    return gradcheck(
        first, (*given, *cotangents), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, fast_mode=fast_mode, check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev,
    )  # fmt: skip


def _outputs(func: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Tensor, ...]:
    result = func(*given)
    results = result if isinstance(result, tuple | list) else (result,)
    return tuple(r for r in results if isinstance(r, Tensor) and r.requires_grad)


def _check_constant(func: Callable[..., Any], given: tuple[Any, ...], varied: list[int], eps: float) -> None:
    """Raise if the outputs of a function change with its inputs although none of them has a gradient."""

    def values() -> list[Array]:
        made = func(*given)
        results = made if isinstance(made, tuple | list) else (made,)
        if not all(isinstance(r, Tensor) for r in results):
            raise ArgumentError("gradcheck: the function must return tensors")
        return [r._array.astype(np.complex128) for r in results if r.dtype.is_differentiable]

    for i in varied:
        target = given[i]._array
        for index in np.ndindex(target.shape):
            old = target[index]
            target[index] = old + eps
            high = values()
            target[index] = old
            if any((h != v).any() for h, v in zip(high, values())):
                raise GradcheckError(
                    f"gradcheck: no output has a gradient, but they change with input {i}: is the function detached, "
                    "or computed under no_grad?"
                )


def _random_like(rng: np.random.Generator, a: Array) -> Array:
    parts = rng.standard_normal((2, *a.shape))
    values = parts[0] + 1j * parts[1] if a.dtype.kind == "c" else parts[0]
    return np.asarray(values).astype(a.dtype)


def _check_pair(
    func: Any, given: Any, k: int, i: int, out: Tensor, eps: float, atol: float, rtol: float, nondet: float, fast: bool
) -> None:
    """Compare the derivative of output k with respect to input i."""
    target = given[i]._array
    if fast:
        rng = np.random.default_rng(k * 31 + i)
        u, v = _random_like(rng, out._array), _random_like(rng, target)
        analytic = np.asarray(_real_dot(_pull(out, given[i], u, nondet), v))
        expected = np.asarray(_real_dot(u, _along(func, given, k, target, v, eps)))
    else:
        numeric = _numeric(func, given, k, target, eps)
        cotangents = list(_basis(out._array))
        analytic = (
            np.stack([_parts(_pull(out, given[i], u, nondet)) for u in cotangents]) if cotangents else np.empty(0)
        )
        expected = np.array([[_real_dot(u, d) for d in numeric] for u in cotangents]) if cotangents else np.empty(0)
    if not np.allclose(analytic, expected, rtol=rtol, atol=atol, equal_nan=True):
        gap = np.max(np.abs(np.asarray(analytic) - np.asarray(expected)))
        raise GradcheckError(
            f"gradcheck: output {k} with respect to input {i}: the analytical Jacobian is off by up to {gap:.3g}\n"
            f"numerical:\n{expected}\nanalytical:\n{analytic}"
        )


def _basis(a: Array) -> Any:
    """Yield the unit cotangents of an array, for complex ones also the imaginary units."""
    for index in np.ndindex(a.shape):
        for one in (1.0, 1.0j) if a.dtype.kind == "c" else (1.0,):
            u = np.zeros(a.shape, a.dtype)
            u[index] = one
            yield u


def _numeric(func: Any, given: Any, k: int, target: Array, eps: float) -> list[Array]:
    """Return d out_k / d(each real part of the input) by central differences; the input is restored."""
    columns = []
    with no_grad():
        for index in np.ndindex(target.shape):
            for step in (eps, eps * 1j) if target.dtype.kind == "c" else (eps,):
                old = target[index]
                target[index] = old + step
                high = _value(func, given, k)
                target[index] = old - step
                low = _value(func, given, k)
                target[index] = old
                columns.append((high - low) / (2 * eps))
    return columns


def _along(func: Any, given: Any, k: int, target: Array, v: Array, eps: float) -> Array:
    """Return the derivative of out_k along the direction `v` of the input, by a central difference."""
    old = target.copy()
    with no_grad():
        target[...] = old + eps * v
        high = _value(func, given, k)
        target[...] = old - eps * v
        low = _value(func, given, k)
        target[...] = old
    difference: Array = (high - low) / (2 * eps)
    return difference


def _value(func: Any, given: Any, k: int) -> Array:
    from .mode import enable_grad

    # Functions that differentiate inside, as gradgradcheck's does, need their graph.
    with enable_grad():
        return _outputs(func, given)[k]._array.copy()


def _pull(out: Tensor, source: Tensor, u: Array, nondet: float) -> Array:
    zero = np.zeros(source._array.shape, source._array.dtype)
    first, second = (
        zero if (g := grad(out, source, wrap(u), retain_graph=True, allow_unused=True)[0]) is None else g._array
        for _ in range(2)
    )
    if np.max(np.abs(first - second), initial=0.0) > nondet:
        raise GradcheckError(
            "gradcheck: two backward passes through the same graph differ; the function is not deterministic"
        )
    return first


def _parts(g: Array) -> Array:
    """Return a gradient as the real vector of its parts: PyTorch's gradient of a real loss is d/dx + i d/dy."""
    flat = g.reshape(-1)
    return np.stack([flat.real, flat.imag], -1).reshape(-1) if g.dtype.kind == "c" else flat


def _real_dot(u: Array, d: Array) -> float:
    return float(np.sum((np.conj(u) * d).real))
