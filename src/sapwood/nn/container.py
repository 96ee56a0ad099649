"""Modules that hold modules or parameters: `Sequential`, `ModuleList`, `ModuleDict`, `ParameterList` …"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Self

from ..tensor import Parameter, Tensor
from .module import Module, indent


def _position(what: str, index: Any, length: int) -> int:
    i = operator.index(index)
    if not -length <= i < length:
        raise IndexError(f"{what}: index {i} is out of range for {length} entries")
    return i % length


class _Numbered(Module):
    """Submodules named "0", "1", … in order."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> Iterable[str]:
        return [k for k in super().__dir__() if not k.isdigit()]

    def _name_at(self, index: Any) -> str:
        return list(self._modules)[_position(type(self).__name__, index, len(self))]

    def __setitem__(self, index: Any, module: Any) -> None:
        setattr(self, self._name_at(index), module)

    def _renumber(self, modules: list[Any]) -> None:
        self._modules.clear()
        for i, module in enumerate(modules):
            self._modules[str(i)] = module

    def pop(self, key: Any) -> Any:
        """Remove the module at `key` and return it."""
        found = self[key]  # type: ignore[index]
        del self[key]
        return found


class Sequential(_Numbered):
    """Run modules one after the other, each on the output of the one before.

    Args:
        args: modules, or one ordered dictionary of names to modules.

    Example:
        >>> from sapwood import nn
        >>> nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        Sequential(
          (0): Linear(in_features=4, out_features=8, bias=True)
          (1): ReLU()
          (2): Linear(in_features=8, out_features=1, bias=True)
        )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        """Pass `input` through the modules in order."""
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: only another Sequential can be added, got {type(other).__name__}")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: only another Sequential can be added, got {type(other).__name__}")
        return self.extend(tuple(other))

    def __mul__(self, other: Any) -> Sequential:
        return Sequential(*(list(self) * _times(other)))

    def __rmul__(self, other: Any) -> Sequential:
        return self * other

    def __imul__(self, other: Any) -> Self:
        return self.extend(list(self) * (_times(other) - 1))

    def append(self, module: Any) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Any) -> Self:
        """Put a module before the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"Sequential.insert: a Module is expected, got {type(module).__name__}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Sequential.insert: index {index} is out of range for {n} entries")
        modules = list(self)
        modules.insert(index + n if index < 0 else index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Any]) -> Self:
        """Add modules at the end."""
        for module in sequential:
            self.append(module)
        return self


def _times(number: Any) -> int:
    if not isinstance(number, int):
        raise TypeError(f"Sequential: it can be repeated a whole number of times, got {type(number).__name__}")
    if number <= 0:
        raise ValueError(f"Sequential: it can be repeated one or more times, got {number}")
    return number


class ModuleList(_Numbered):
    """A list of modules that are registered.

    Args:
        modules: an iterable of modules.
    """

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[str(_position("ModuleList", index, len(self)))]

    def __setitem__(self, index: Any, module: Any) -> None:
        setattr(self, str(_position("ModuleList", index, len(self))), module)

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            for i in range(len(self))[index]:
                delattr(self, str(i))
        else:
            delattr(self, str(_position("ModuleList", index, len(self))))
        self._renumber(list(self._modules.values()))

    def __iadd__(self, modules: Iterable[Any]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        combined = ModuleList()
        for i, module in enumerate(chain(self, other)):
            combined.add_module(str(i), module)
        return combined

    def insert(self, index: int, module: Any) -> None:
        """Put a module before the one at `index`."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def append(self, module: Any) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Any]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend: an iterable of modules is expected, got {type(modules).__name__}")
        start = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(start + i), module)
        return self

    def __repr__(self) -> str:
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        runs: list[tuple[int, int, str]] = []
        for i, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1] = runs[-1][0], i, text
            else:
                runs.append((i, i, text))
        lines = []
        for first, last, text in runs:
            head = f"({first})" if first == last else f"({first}-{last})"
            many = "" if first == last else f"{last - first + 1} x "
            lines.append(indent(f"{head}: {many}{text}", 2))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def _pairs(what: str, given: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the (key, value) pairs of a mapping or of an iterable of pairs."""
    if not isinstance(given, Iterable):
        raise TypeError(f"{what}.update: a mapping or an iterable of pairs is expected, got {type(given).__name__}")
    if isinstance(given, Mapping | ModuleDict | ParameterDict):
        yield from given.items()
        return
    for i, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{what}.update: entry {i} must be a (key, value) pair, got {type(pair).__name__}")
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{what}.update: entry {i} must be a (key, value) pair, it has length {len(pair)}")
        yield pair


class ModuleDict(Module):
    """A dictionary of modules that are registered; it keeps the order of insertion.

    Args:
        modules: a mapping of names to modules, or an iterable of pairs.
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove everything."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove `key` and return its module."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Return (name, module) pairs."""
        return self._modules.items()

    def values(self) -> Any:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules from a mapping or an iterable of pairs."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _wrapped(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _entry(name: Any, value: Any, kind: str) -> str:
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({name}): {what} containing: [{kind} of size {'x'.join(map(str, value.shape))}]"


class ParameterList(Module):
    """A list of parameters that are registered; tensors become Parameters, other values are kept as they are.

    Args:
        values: an iterable.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            made = type(self)()
            for i in range(len(self))[index]:
                made.append(self[i])
            return made
        return getattr(self, str(_position("ParameterList", index, len(self))))

    def __setitem__(self, index: Any, value: Any) -> None:
        setattr(self, str(_position("ParameterList", index, len(self))), _wrapped(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __dir__(self) -> Iterable[str]:
        return [k for k in super().__dir__() if not k.isdigit()]

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend: an iterable of values is expected, got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return one line for each entry."""
        return "\n".join(_entry(i, v, str(getattr(v, "dtype", ""))) for i, v in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList: it holds parameters and cannot be called")


class ParameterDict(Module):
    """A dictionary of parameters that are registered; tensors become Parameters, other values are kept as they are.

    Args:
        parameters: a mapping, or an iterable of pairs.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: keys are strings, got {type(key).__name__}")
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        # Stored under its own name at once, so that an invalid name is refused before the key is listed.
        setattr(self, self._key_to_attr(key), _wrapped(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return a new ParameterDict with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of `key`, storing `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove everything."""
        for key in tuple(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove `key` and return its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last (key, value)."""
        key = next(reversed(self))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of `key`, or `default`."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new ParameterDict with `default` under every key."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """Return the keys."""
        return self._keys.keys()

    def items(self) -> Any:
        """Yield (key, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Any:
        """Yield the values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace values from a mapping or an iterable of pairs."""
        # A plain dictionary made no promise about its order, so it is taken in the order of its keys.
        pairs: Iterable[Any] = _pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs)
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        """Return one line for each entry."""
        return "\n".join(_entry(k, v, _legacy_name(v)) for k, v in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict: it holds parameters and cannot be called")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        made = other.copy()
        made.update(self)
        return made

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self


_LEGACY = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def _legacy_name(value: Any) -> str:
    """Return PyTorch's old type name of a tensor, e.g. "torch.FloatTensor"."""
    if not isinstance(value, Tensor):
        return ""
    name = str(value.dtype).removeprefix("torch.")
    return f"torch.{_LEGACY.get(name, name)}Tensor"
