"""The names that a pickle of weights may mention, and what each stands for."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import dtypes
from ..device import device as Device
from ..errors import LoadError
from ..tensor import Size, Tensor
from . import storage
from .storage import STORAGES, StorageType


class Constructor:
    """A name that a pickle may call. Opaque, so that a pickle cannot change what is behind it."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise LoadError("load: malformed bytes in the pickle")
    return text.encode("latin1")


def _bytearray(data: Any = b"", encoding: Any = "latin1") -> bytearray:
    return bytearray(_encode(data, encoding) if isinstance(data, str) else _only(bytes, data))


def _only(kind: Any, value: Any) -> Any:
    # A number given to bytearray would be a size to allocate.
    if not isinstance(value, kind):
        raise LoadError(f"load: malformed {kind} in the pickle")
    return value


def _complex(real: Any, imag: Any) -> complex:
    return complex(_only((int, float), real), _only((int, float), imag))


def _size(values: Any) -> Size:
    return Size(_only(int, v) for v in _only((tuple, list), values))


def _device(kind: Any, index: Any = None) -> Device:
    return Device(_only(str, kind), index if index is None else _only(int, index))


def _ordered(pairs: Any = ()) -> Any:
    return collections.OrderedDict(_only((list, tuple), pairs))


def _from_type(function: Any, kind: Any, args: Any, state: Any) -> Tensor:
    """Rebuild a tensor that was saved with attributes of its own."""
    if not isinstance(function, Constructor) or getattr(kind, "call", None) is not _refuse:
        raise LoadError("load: a tensor of an unknown class")
    tensor = _only(Tensor, function.call(*_only(tuple, args)))
    return storage.with_attributes(tensor, state)


def _refuse(*args: Any) -> Any:
    """Stand for the classes of tensors: they may be named as the type of a tensor, but Tensor(10**12) allocates."""
    raise LoadError("load: a class of tensors cannot be called by a file of weights")


def _known() -> dict[str, Any]:
    known: dict[str, Any] = {f"torch.{name}": StorageType(name, d) for name, d in STORAGES.items()} | {
        f"torch.{d.name}": d for d in dtypes.ALL
    }
    known["torch.storage.UntypedStorage"] = known["torch.UntypedStorage"]
    calls: dict[str, Callable[..., Any]] = {
        "torch._utils._rebuild_tensor_v2": storage.rebuild_tensor,
        "torch._utils._rebuild_tensor": storage.rebuild_tensor,
        "torch._utils._rebuild_tensor_v3": storage.rebuild_tensor_v3,
        "torch._utils._rebuild_parameter": storage.rebuild_parameter,
        "torch._utils._rebuild_parameter_with_state": storage.rebuild_parameter_with_state,
        "torch._tensor._rebuild_from_type_v2": _from_type,
        "torch.serialization._get_layout": lambda name: _only(str, name),
        "torch.Size": _size,
        "torch.device": _device,
        "collections.OrderedDict": _ordered,
        "builtins.set": lambda items=(): set(_only((list, tuple), items)),
        "builtins.frozenset": lambda items=(): frozenset(_only((list, tuple), items)),
        "builtins.bytearray": _bytearray,
        "builtins.complex": _complex,
        "_codecs.encode": _encode,
        "collections.Counter": lambda counts=None: collections.Counter(_only(dict, counts or {})),
    }
    known |= {name: Constructor(name, call) for name, call in calls.items()}
    known["torch.Tensor"] = Constructor("torch.Tensor", _refuse)
    known["torch.nn.parameter.Parameter"] = Constructor("torch.nn.parameter.Parameter", _refuse)
    return known


KNOWN = _known()
_added: dict[str, Any] = {}


def full_name(value: Any) -> str:
    """Return the name by which a pickle mentions a class or function."""
    return f"{value.__module__}.{getattr(value, '__qualname__', value.__name__)}"


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` with weights_only=True rebuild further classes and call further functions.

    Args:
        safe_globals: classes, functions, or pairs (class or function, the full name that files use for it).
    """
    for entry in safe_globals:
        value, name = entry if isinstance(entry, tuple) else (entry, full_name(entry))
        _added[name] = value


def get_safe_globals() -> list[Any]:
    """Return what was added with `add_safe_globals`."""
    return list(_added.values())


def clear_safe_globals() -> None:
    """Take everything away that was added with `add_safe_globals`."""
    _added.clear()


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Add safe globals for the duration of a block."""
    before = dict(_added)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _added.clear()
        _added.update(before)


def lookup(module: str, name: str) -> Any:
    """Return what a name in a pickle stands for.

    Raises:
        LoadError: it is not among the names that make up weights.
    """
    if module == "__builtin__":
        module = "builtins"
    full = f"{module}.{name}"
    if full in KNOWN:
        return KNOWN[full]
    if full in _added:
        return _added[full]
    raise LoadError(
        f"load: the file holds an object of {full}, and by default only tensors, parameters and plain containers are "
        "rebuilt, because any other object can run code as it is loaded. Two ways out: if you trust where the file "
        "comes from, load(…, weights_only=False), or name what you trust with add_safe_globals; if you can write the "
        "file again, save module.state_dict() in place of the module"
    )
