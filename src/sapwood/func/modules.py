"""Modules as functions of their parameters: `functional_call` and `stack_module_state`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import ops as _ops
from ..errors import ArgumentError, GradError
from ..tensor import Tensor
from .transforms import TransformError

ops: Any = _ops


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers.

    Args:
        parameter_and_buffer_dicts: name -> tensor, as `named_parameters` and `named_buffers` name them; or a sequence
            of such dictionaries with different names. What they leave out keeps the module's own value.
        args: the module's positional arguments; a single one that is no tuple is passed alone.
        kwargs: its keyword arguments.
        tie_weights: a tensor that the module knows under several names is replaced under all of them.
        strict: refuse names that the module does not have, and names left out.

    Raises:
        TransformError: one name in two dictionaries, or different values for tied names.
        GradError: `strict`, and the names do not match.
    """
    given = _merged(parameter_and_buffer_dicts)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    names = [n for n, _ in module.named_parameters(remove_duplicate=False)]
    names += [n for n, _ in module.named_buffers(remove_duplicate=False)]
    if tie_weights:
        given = _tied(module, given)
    if strict:
        unknown, missing = sorted(set(given) - set(names)), sorted(set(names) - set(given))
        if unknown or missing:
            raise GradError(f"functional_call: unexpected names {unknown}, missing names {missing} (strict=True)")
    with _replaced(module, given):
        return module(*args, **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, dict):
        return dict(dicts)
    if not isinstance(dicts, Sequence) or not all(isinstance(d, dict) for d in dicts):
        raise TransformError(
            f"functional_call: a dictionary or a sequence of dictionaries is expected, got {type(dicts).__name__}"
        )
    merged: dict[str, Any] = {}
    for d in dicts:
        twice = sorted(set(merged) & set(d))
        if twice:
            raise TransformError(
                f"functional_call: {twice} appear in more than one dictionary; each name may appear once"
            )
        merged |= d
    return merged


def _tied(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Add the other names of every tensor that is replaced under one of its names."""
    groups: dict[int, list[str]] = {}
    for pairs in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in pairs:
            groups.setdefault(id(tensor), []).append(name)
    found = dict(given)
    for names in groups.values():
        values = [given[n] for n in names if n in given]
        if not values:
            continue
        if any(v is not values[0] for v in values):
            raise TransformError(f"functional_call: {names} are one tensor and were given different values; give one")
        found |= dict.fromkeys(names, values[0])
    return found


_ABSENT = object()


@contextmanager
def _replaced(module: Any, given: dict[str, Any]) -> Iterator[None]:
    """Put tensors into the module's own dictionaries, and the old ones back; what the call wrote goes into `given`."""
    kept: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for path, value in given.items():
            owner, _, name = path.rpartition(".")
            try:
                part = module.get_submodule(owner)
            except AttributeError as problem:
                raise AttributeError(f"functional_call: the module has no part {owner!r} (for {path!r})") from problem
            table = next((t for t in (part._parameters, part._buffers) if name in t), None)
            if table is None:
                # A name that is no parameter becomes an attribute for the time of the call.
                table = part.__dict__
            if not isinstance(value, Tensor):
                raise ArgumentError(f"functional_call: {path!r} must be a tensor, got {type(value).__name__}")
            kept.append((table, name, table.get(name, _ABSENT)))
            table[name] = value
        yield
    finally:
        for table, name, old in reversed(kept):
            if old is _ABSENT:
                del table[name]
            else:
                table[name] = old


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and the buffers of several modules of one architecture, stacked along a new dimension 0.

    Stacked parameters are leaves that require grad.

    Raises:
        GradError: no model, models of different classes, or some in training mode and some not.
    """
    models = list(models)
    if not models:
        raise GradError("stack_module_state: at least one model is expected")
    if len({m.training for m in models}) > 1:
        raise GradError("stack_module_state: all models must be in one mode, training or evaluation")
    if len({type(m) for m in models}) > 1:
        raise GradError("stack_module_state: all models must be of one class")
    params = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return {n: _stacked([p[n] for p in params]) for n in params[0]}, {
        n: _stacked([b[n] for b in buffers]) for n in buffers[0]
    }


def _stacked(tensors: list[Any]) -> Any:
    wants = [t.requires_grad for t in tensors]
    if len(set(wants)) > 1:
        raise GradError("stack_module_state: a parameter requires grad in some of the models only")
    return ops.stack([t.detach() for t in tensors]).requires_grad_(wants[0])


def functionalize(func: Any, *, remove: str = "mutations") -> Any:
    """Return a function with the results of `func`; its in-place operations stay, as no transform here minds them.

    Args:
        remove: "mutations" or "mutations_and_views", what a tracer would not see; both give the same results.

    Raises:
        GradError: another word.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise GradError(
            f"functionalize: remove must be 'mutations' or 'mutations_and_views', got {remove!r}; both give the same"
        )

    @functools.wraps(func)
    def functional(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return functional


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Drop the running statistics of every batch normalisation in a module, in place: vmap has no use for them."""
    from ..nn import BatchNorm1d

    kind: Any = BatchNorm1d.__mro__[1]
    for module in root.modules():
        if isinstance(module, kind):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
