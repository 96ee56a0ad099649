"""A pickle machine that knows only what files of weights need. No pickle can make it do anything else.

The standard library's decoder names the operations; those not listed here are refused. What a pickle calls must be
one of `names`, and no operation sets attributes on anything but fresh objects.
"""

from __future__ import annotations

import collections
import pickletools
from collections.abc import Callable
from typing import IO, Any

from ..errors import LoadError, SapwoodError
from .names import Constructor, full_name, get_safe_globals, lookup

_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = {
    "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "SHORT_BINSTRING", "BINSTRING", "STRING", "SHORT_BINBYTES",
    "BINBYTES", "BINBYTES8",
}  # fmt: skip
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Machine:
    """Runs the pickle of a file of weights."""

    def __init__(self, storages: Any) -> None:
        self.storages = storages
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, program: bytes | IO[bytes]) -> Any:
        """Return the object that the pickle describes; a file is left after the pickle's end.

        Raises:
            LoadError: it uses an operation or a name that weights do not need, or is malformed.
        """
        try:
            for operation, argument, _ in pickletools.genops(program):
                if operation.name == "STOP":
                    if len(self.stack) != 1:
                        raise LoadError("load: the pickle does not end with one object")
                    return self.stack.pop()
                self.step(operation.name, argument)
        except SapwoodError:
            raise
        except (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
            raise LoadError(f"load: the pickle in the file is malformed: {problem}") from problem
        raise LoadError("load: the pickle in the file has no end")

    def step(self, name: str, argument: Any) -> None:
        """Run one operation."""
        stack = self.stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[argument] = self._top()
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self._top()
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[argument])
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _TUPLES:
            stack.append(tuple(self._pop(_TUPLES[name])))
        elif name == "GLOBAL":
            stack.append(lookup(*argument.split(" ", 1)))
        elif name not in ("PROTO", "FRAME"):
            operation = getattr(self, f"op_{name.lower()}", None)
            if operation is None:
                raise LoadError(
                    f"load: the pickle uses the operation {name}, which weights do not need; if you trust it, use "
                    "weights_only=False"
                )
            operation()

    def _top(self) -> Any:
        if self.stack[-1] is _MARK:
            raise LoadError("load: the pickle in the file is malformed: it has a mark where an object should be")
        return self.stack[-1]

    def _pop(self, count: int) -> list[Any]:
        values = self.stack[-count:]
        if len(values) < count or any(v is _MARK for v in values):
            raise LoadError("load: the pickle in the file is malformed: its stack has too few objects")
        del self.stack[-count:]
        return values

    def _to_mark(self) -> list[Any]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                values = self.stack[at + 1 :]
                del self.stack[at:]
                return values
        raise LoadError("load: the pickle in the file is malformed: it has no mark")

    def _target(self, *kinds: type) -> Any:
        target = self._top()
        if not isinstance(target, kinds):
            raise LoadError(f"load: the pickle in the file is malformed: it fills a {type(target).__name__}")
        return target

    def op_tuple(self) -> None:
        """Make a tuple."""
        self.stack.append(tuple(self._to_mark()))

    def op_append(self) -> None:
        """Append to a list."""
        (value,) = self._pop(1)
        self._target(list).append(value)

    def op_appends(self) -> None:
        """Extend a list."""
        values = self._to_mark()
        self._target(list).extend(values)

    def op_setitem(self) -> None:
        """Set an item of a dict."""
        key, value = self._pop(2)
        self._target(dict)[key] = value

    def op_setitems(self) -> None:
        """Set items of a dict."""
        values = self._to_mark()
        if len(values) % 2:
            raise LoadError("load: the pickle in the file is malformed: a key without a value")
        target = self._target(dict)
        for key, value in zip(values[::2], values[1::2]):
            target[key] = value

    def op_additems(self) -> None:
        """Add to a set."""
        values = self._to_mark()
        self._target(set).update(values)

    def op_stack_global(self) -> None:
        """Look a name up."""
        module, name = self._pop(2)
        if not (isinstance(module, str) and isinstance(name, str)):
            raise LoadError("load: the pickle in the file is malformed: a name that is no string")
        self.stack.append(lookup(module, name))

    def op_binpersid(self) -> None:
        """Refer to a storage."""
        (pid,) = self._pop(1)
        self.stack.append(self.storages.persistent(pid))

    def op_reduce(self) -> None:
        """Call one of the known names."""
        function, args = self._pop(2)
        if not isinstance(args, tuple):
            raise LoadError("load: the pickle in the file is malformed: a call without arguments")
        if isinstance(function, Constructor):
            self.stack.append(function.call(*args))
        elif _is_added(function):
            self.stack.append(function(*args))
        else:
            raise LoadError(f"load: the pickle calls a {type(function).__name__}, which weights do not need")

    def op_newobj(self) -> None:
        """Make an object of a class that was declared safe."""
        cls, args = self._pop(2)
        if isinstance(cls, Constructor) and cls.name == "collections.OrderedDict" and args == ():
            self.stack.append(cls.call())
            return
        if not (_is_added(cls) and isinstance(cls, type) and isinstance(args, tuple)):
            raise LoadError(f"load: the pickle makes an object of {cls!r}, which weights do not need")
        self.stack.append(cls.__new__(cls, *args))

    def op_build(self) -> None:
        """Give an object its state: the metadata of a state_dict, or an object of a class that was declared safe."""
        (state,) = self._pop(1)
        target = self._top()
        if type(target) is collections.OrderedDict and isinstance(state, dict):
            target.__dict__.update(state)
        elif _is_added(type(target)):
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                target.__dict__.update(state)
        else:
            raise LoadError(f"load: the pickle sets the state of a {type(target).__name__}, which weights do not need")


def _is_added(value: Any) -> bool:
    return any(value is added for added in get_safe_globals())


__all__ = ["Machine", "full_name"]
