"""Hooks of modules: functions that see, and may replace, what goes into and comes out of a module, and its gradients.

A module's gradients are seen at two boundary nodes, identities around its inputs and around its outputs. They exist
only while a backward hook does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from .. import alias
from ..autograd.engine import zeros_for
from ..hook import RemovableHandle, add_hook
from ..node import LEAF, Node, Output
from ..state import GRAD, get_mode, next_seq
from ..tensor import Tensor, wrap
from .registry import Registered, registration_hooks
from .state_dict import Stateful

H = TypeVar("H", bound=Callable[..., Any])

_pre: dict[int, Any] = {}
_forward: dict[int, Any] = {}
_forward_kwargs: dict[int, Any] = {}
_forward_always: dict[int, Any] = {}
_backward_pre: dict[int, Any] = {}
_backward: dict[int, Any] = {}
_legacy_backward: dict[int, Any] = {}
_NONE: dict[Any, Any] = {}


class Hooked(Stateful):
    """The part of Module that registers hooks and runs them."""

    _is_full_backward_hook: bool | None = None

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; a result that is not None replaces the arguments.

        Args:
            prepend: run it before the hooks registered so far.
            with_kwargs: call `hook(module, args, kwargs)`; it returns None or (args, kwargs).
        """
        handle = add_hook(self._forward_pre_hooks, hook, first=prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; a result that is not None replaces the output.

        Args:
            prepend: run it before the hooks registered so far.
            with_kwargs: call `hook(module, args, kwargs, output)`.
            always_call: run it even if forward raised (output is None then).
        """
        handle = add_hook(self._forward_hooks, hook, first=prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the inputs are complete.

        A result that is not None replaces grad_input. Entries are None for arguments that are no tensors.
        """
        if self._is_full_backward_hook is False:
            raise _mixed()
        self._is_full_backward_hook = True
        return add_hook(self._backward_hooks, hook, first=prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before gradients enter the module; a result replaces grad_output."""
        return add_hook(self._backward_pre_hooks, hook, first=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` on the last node of the module only; prefer the full form."""
        if self._is_full_backward_hook is True:
            raise _mixed()
        self._is_full_backward_hook = False
        return add_hook(self._backward_hooks, hook)

    def _run_hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run forward with every hook around it: what __call__ does where there may be hooks."""
        done: set[int] = set()
        try:
            return self._run_hooks_and_forward(args, kwargs, done)
        except Exception:
            self._run_always_called(args, kwargs, done)
            raise

    def _run_hooks_and_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any], done: set[int]) -> Any:
        module: Any = self
        # Read past __getattr__, which would make the dictionaries and flag the module.
        own = self.__dict__.get
        for hooks, with_kwargs in (
            (_pre, _NONE),
            (own("_forward_pre_hooks", _NONE), own("_forward_pre_hooks_with_kwargs", _NONE)),
        ):
            for key, hook in tuple(hooks.items()):
                args, kwargs = _before(module, hook, args, kwargs, key in with_kwargs)
        full = list(_backward.values())
        legacy = list(_legacy_backward.values())
        (full if self._is_full_backward_hook else legacy).extend(own("_backward_hooks", _NONE).values())
        pre = [*_backward_pre.values(), *own("_backward_pre_hooks", _NONE).values()]
        watch = Watch(module, full, pre) if full or pre else None
        if watch is not None:
            args = watch.inputs(args)
        result = module.forward(*args, **kwargs)
        for hooks, with_kwargs in (
            (_forward, _forward_kwargs),
            (own("_forward_hooks", _NONE), own("_forward_hooks_with_kwargs", _NONE)),
        ):
            for key, hook in tuple(hooks.items()):
                done.add(key)
                new = hook(module, args, kwargs, result) if key in with_kwargs else hook(module, args, result)
                result = result if new is None else new
        if watch is not None:
            result = watch.outputs(result)
        if legacy:
            _attach_legacy(module, legacy, result)
        return result

    def _run_always_called(self, args: tuple[Any, ...], kwargs: dict[str, Any], done: set[int]) -> None:
        """Run the hooks that want to be called although forward raised; their own errors become warnings."""
        own = self.__dict__.get
        of_this = [
            own(n, _NONE) for n in ("_forward_hooks", "_forward_hooks_always_called", "_forward_hooks_with_kwargs")
        ]
        for hooks, always, with_kwargs in ((_forward, _forward_always, _forward_kwargs), of_this):
            for key, hook in tuple(hooks.items()):
                if key in always and key not in done:
                    try:
                        hook(self, args, kwargs, None) if key in with_kwargs else hook(self, args, None)
                    except Exception as problem:
                        warnings.warn(
                            f"forward hook: a hook registered with always_call raised {problem!r} after forward had "
                            "failed; the error of forward is reported",
                            stacklevel=4,
                        )


def _mixed() -> RuntimeError:
    return RuntimeError(
        "register_backward_hook: a module has either backward hooks or full backward hooks, and this one has the other "
        "kind; use register_full_backward_hook for all of them"
    )


def _before(module: Any, hook: Any, args: Any, kwargs: Any, with_kwargs: bool) -> tuple[Any, Any]:
    if not with_kwargs:
        result = hook(module, args)
        if result is None:
            return args, kwargs
        return (result if isinstance(result, tuple) else (result,)), kwargs
    result = hook(module, args, kwargs)
    if result is None:
        return args, kwargs
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            "forward pre-hook: a hook registered with_kwargs returns None or (args, kwargs), got "
            f"{type(result).__name__}"
        )
    return result


# -- gradients --------------------------------------------------------------------------------------------------------


class BackwardHookFunctionBackward(Node):
    """The node of an identity over several tensors: a place at which all their gradients are known together."""

    __slots__ = ("outs",)

    def own_pull(self, g: list[Any], create: bool) -> list[Any]:
        """Pass the gradients on; what nothing used is zero."""
        return [zeros_for(self, nr, create) if x is None else x for nr, x in enumerate(g)]


def boundary(tensors: list[Tensor]) -> tuple[list[Tensor], BackwardHookFunctionBackward]:
    """Return tensors on the same memory behind one common node, and that node."""
    node = BackwardHookFunctionBackward()
    node.edges = tuple(t if t._node is LEAF else t._node for t in tensors)
    node.saved = ()
    node.outs = len(tensors)  # type: ignore[misc]
    node.shape = tuple(t._array.shape for t in tensors)
    node.dtype = tuple(t._array.dtype for t in tensors)
    node.seq = next_seq()
    node.extra = None
    passed = []
    for nr, t in enumerate(tensors):
        edge = None if t._node is None else Output(node, nr, t._array.shape, t._array.dtype)
        out = wrap(t._array, edge)
        if t._record is not None:
            out._record = t._record
        # As for any function with several outputs, a write in place could not be put into the others' history.
        alias.register_view(out, t, "function")
        passed.append(out)
    return passed, node


class Watch:
    """One call of a module whose gradients somebody wants to see."""

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.at_input: list[int] | None = None
        self.at_output: list[int] = []
        self.number = 0

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments behind a boundary node, if a gradient can reach any of them."""
        self.number = len(args)
        passed, at, node = _behind_boundary(args)
        if node is None:
            return args
        self.at_input = at
        node.register_hook(self._leaving)
        return passed

    def outputs(self, result: Any) -> Any:
        """Return the result behind a boundary node, if a gradient can come from any part of it."""
        values = result if isinstance(result, tuple) else (result,)
        passed, at, node = _behind_boundary(values)
        if node is None:
            return result
        self.at_output = at
        self.width = len(values)
        node.register_prehook(self._entering)
        if not isinstance(result, tuple):
            return passed[0]
        return type(result)(*passed) if hasattr(result, "_fields") else passed

    def _entering(self, grads: tuple[Any, ...]) -> tuple[Any, ...] | None:
        self.grad_outputs = _spread(grads, self.at_output, self.width)
        for hook in self.pre_hooks:
            result = hook(self.module, self.grad_outputs)
            if result is not None:
                self.grad_outputs = _checked("full backward pre-hook", result, self.width)
        seen = self.grad_outputs
        if self.at_input is None:
            if self.hooks:
                warnings.warn(
                    f"full backward hook: no input of {type(self.module).__name__} requires grad, so the hook runs as "
                    "soon as the gradients of the outputs are known and gets None for every input",
                    UserWarning,
                    stacklevel=2,
                )
            for hook in self.hooks:
                result = hook(self.module, (None,) * self.number, self.grad_outputs)
                if result is not None and any(r is not None for r in result):
                    raise RuntimeError("full backward hook: no input requires grad, so no grad_input can be replaced")
            self.grad_outputs = None
        return tuple(seen[i] for i in self.at_output)

    def _leaving(self, grad_inputs: tuple[Any, ...], _: Any) -> tuple[Any, ...] | None:
        if self.grad_outputs is None or self.at_input is None:
            return None
        grads = _spread(grad_inputs, self.at_input, self.number)
        for hook in self.hooks:
            result = hook(self.module, grads, self.grad_outputs)
            if result is not None:
                grads = _checked("full backward hook", result, self.number)
        self.grad_outputs = None
        return tuple(grads[i] for i in self.at_input)


def _behind_boundary(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int], Any]:
    at = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not get_mode() & GRAD or not any(values[i].requires_grad for i in at):
        return values, at, None
    passed, node = boundary([values[i] for i in at])
    new = list(values)
    for i, t in zip(at, passed):
        new[i] = t
    return tuple(new), at, node


def _spread(grads: tuple[Any, ...], at: list[int], number: int) -> tuple[Any, ...]:
    placed: list[Any] = [None] * number
    for i, g in zip(at, grads):
        placed[i] = g
    return tuple(placed)


def _checked(what: str, result: Any, number: int) -> tuple[Any, ...]:
    given = result if isinstance(result, tuple) else (result,)
    if len(given) != number:
        raise RuntimeError(f"{what}: {number} gradients are expected back, one for each argument, got {len(given)}")
    return given


def _attach_legacy(module: Any, hooks: list[Any], result: Any) -> None:
    while not isinstance(result, Tensor):
        if isinstance(result, dict):
            result = next((v for v in result.values() if isinstance(v, Tensor)), None)
        elif isinstance(result, tuple | list) and result:
            result = result[0]
        else:
            return
        if result is None:
            return
    node = result.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(lambda grads, outs, hook=hook: hook(module, grads, outs))


# -- hooks on every module --------------------------------------------------------------------------------------------


def _everywhere(handle: RemovableHandle) -> RemovableHandle:
    # Seen by every instance that has no flag of its own: from now on calls take the path that looks for hooks.
    Registered._hooked = True
    return handle


def any_global() -> bool:
    """Return whether a hook on every module exists."""
    return bool(_pre or _forward or _backward_pre or _backward or _legacy_backward)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the forward of every module."""
    return _everywhere(add_hook(_pre, hook))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the forward of every module."""
    handle = add_hook(_forward, hook)
    if with_kwargs:
        _forward_kwargs[handle.id] = True
    if always_call:
        _forward_always[handle.id] = True
    return _everywhere(handle)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before gradients enter any module."""
    return _everywhere(add_hook(_backward_pre, hook))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when gradients have left any module."""
    if _legacy_backward:
        raise _mixed()
    return _everywhere(add_hook(_backward, hook))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` on the last node of every module; prefer the full form."""
    if _backward:
        raise _mixed()
    return _everywhere(add_hook(_legacy_backward, hook))


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` whenever a parameter is registered; a result replaces it."""
    return add_hook(registration_hooks["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a buffer is registered; a result replaces it."""
    return add_hook(registration_hooks["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever a submodule is registered; a result replaces it."""
    return add_hook(registration_hooks["module"], hook)
