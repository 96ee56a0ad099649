"""Changing all tensors of a module: dtype, device, whether they are trained, their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from .. import dtypes, ops
from ..autograd.mode import no_grad
from ..device import device as Device
from ..dtypes import dtype as Dtype
from ..errors import MissingError
from ..tensor import Tensor
from .traverse import Traversed


class Converted(Traversed):
    """The part of Module that converts its parameters and buffers in place."""

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replace the memory of every parameter, gradient and buffer by `fn` of it; the parameters stay the same."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with no_grad():
            for param in self._parameters.values():
                if param is None:
                    continue
                for t in (param,) if param.grad is None else (param, param.grad):
                    new = fn(t)
                    if new is not t:
                        t.data = new
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating-point and complex parameters and buffers in place; return the module.

        Call as to(device), to(dtype), to(device, dtype) or to(tensor); `non_blocking` and `memory_format` are accepted.

        Raises:
            TypeError: the dtype is neither floating-point nor complex.
        """
        wanted = _target(args, kwargs)
        if wanted is None:
            return self
        if not (wanted.is_floating_point or wanted.is_complex):
            raise TypeError(f"to: a module can become a floating-point or complex type, got {wanted.name}")
        return self._apply(lambda t: t.to(wanted) if t.is_floating_point() or t.is_complex() else t)

    def _floats_to(self, wanted: Any) -> Self:
        return self._apply(lambda t: t.to(wanted) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._floats_to(dtypes.float32)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._floats_to(dtypes.float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._floats_to(dtypes.float16)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._floats_to(dtypes.bfloat16)

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers to `dst_type`."""
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self) -> Self:
        """Return the module: it is on the CPU."""
        return self

    def cuda(self, device: Any = None) -> Self:
        """Refuse: there is no GPU engine."""
        raise MissingError("cuda: modules live on the CPU here; leave the call out, or guard it by cuda.is_available()")

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Give every parameter and buffer new memory without values."""
        return self._apply(ops.empty_like, recurse=recurse)

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory shared between processes."""
        return self._apply(lambda t: t.share_memory_())

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters are trained; return the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()


def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the dtype that the arguments of `to` ask for, None to keep each."""
    known = {"device", "dtype", "tensor", "non_blocking", "memory_format", "copy"}
    if not kwargs.keys() <= known:
        raise TypeError(f"to: unknown argument {sorted(kwargs.keys() - known)[0]!r}")
    wanted = kwargs.get("dtype")
    place = kwargs.get("device")
    if (like := kwargs.get("tensor")) is not None:
        wanted = like.dtype
    for a in args:
        if isinstance(a, Tensor):
            wanted = a.dtype
        elif isinstance(a, Dtype):
            wanted = a
        elif isinstance(a, str | Device):
            place = a
        elif a is not None and not isinstance(a, bool | int):
            raise TypeError(f"to: a device, a dtype or a tensor is expected, got {type(a).__name__}")
    if place is not None and (place if isinstance(place, Device) else Device(place)).type != "meta":
        Device(place).require_cpu("to")
    return wanted
