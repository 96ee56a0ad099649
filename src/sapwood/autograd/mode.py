"""Grad modes: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`; contexts and decorators.

A mode holds for the thread and the async task that entered it. A decorated generator has the mode while its body runs
and gives the caller's mode back at each yield.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Generator
from contextvars import Token
from sys import _getframe as getframe
from typing import Any, TypeVar

from .. import alias
from ..cuts import entered
from ..errors import ArgumentError
from ..state import GRAD, INFERENCE, get_mode, mode
from ..tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context that changes the mode word; as a decorator it does so around every call."""

    def __init__(self) -> None:
        self._tokens: list[Token[int]] = []

    def word(self, now: int) -> int:
        """Return the mode word inside the context."""
        raise NotImplementedError

    def clone(self) -> _Mode:
        """Return a fresh context like this one, so that decorated functions can recurse and overlap."""
        return type(self)()

    def __enter__(self) -> None:
        self._tokens.append(mode.set(self.word(get_mode())))

    def __exit__(self, *exception: object) -> None:
        mode.reset(self._tokens.pop())

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            original = function.__init__
            setattr(function, "__init__", self(original))  # noqa: B010
            return function
        if inspect.isgeneratorfunction(function):
            return self._generator(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    def _generator(self, function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            inner = function(*args, **kwargs)
            sent: Any = None
            step = inner.send
            while True:
                try:
                    with self.clone():
                        value = step(sent)
                except StopIteration as stop:
                    return stop.value
                try:
                    sent = yield value
                    step = inner.send
                except GeneratorExit:
                    with self.clone():
                        inner.close()
                    raise
                except BaseException as problem:
                    sent, step = problem, inner.throw

        return wrapped


def _decorator(cls: type[_Mode], function: Any) -> Any:
    """Let `@no_grad` work without parentheses."""
    return cls()(function)


class _Called(type):
    """Makes a `no_grad` in one Python call, where `__new__` and `__init__` would be two; `@no_grad` wraps at once."""

    def __call__(cls, orig_func: Any = None, /, *args: Any) -> Any:
        own: Any = cls
        if orig_func is not None:
            return _decorator(own, orig_func)
        made = object.__new__(own)
        if own is no_grad:
            made._tokens = []
        else:
            made.__init__(*args)
        return made


class no_grad(_Mode, metaclass=_Called):
    """Record no graph inside: outputs do not require grad. As a context or a decorator.

    Example:
        >>> import sapwood
        >>> x = sapwood.ones(1, requires_grad=True)
        >>> with sapwood.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    def __enter__(self) -> None:
        # Entered at every update of a hand-written loop, so without the detour over `word`.
        frame = getframe(1)
        entered((frame.f_code, frame.f_lasti))
        self._tokens.append(mode.set(get_mode() & ~GRAD))

    def word(self, now: int) -> int:
        return now & ~GRAD


class enable_grad(_Mode):
    """Record a graph inside, even within `no_grad`. As a context or a decorator."""

    def __new__(cls, orig_func: Any = None) -> Any:
        return object.__new__(cls) if orig_func is None else _decorator(cls, orig_func)

    def __init__(self, orig_func: Any = None) -> None:
        super().__init__()

    def word(self, now: int) -> int:
        return now if now & INFERENCE else now | GRAD


class set_grad_enabled(_Mode):
    """Switch recording on or off: at once as a statement, until its end as a context."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        if not isinstance(mode, bool):
            raise ArgumentError(f"set_grad_enabled: mode must be True or False, got {type(mode).__name__}")
        self.on = mode
        self._before = _set(self.word(get_mode()))

    def word(self, now: int) -> int:
        return now | GRAD if self.on else now & ~GRAD

    def clone(self) -> _Mode:
        fresh = set_grad_enabled.__new__(set_grad_enabled)
        _Mode.__init__(fresh)
        fresh.on = self.on
        fresh._before = get_mode()
        return fresh

    def __enter__(self) -> None:
        # The constructor has switched already; the context takes its beginning from there.
        _set(self.word(get_mode()))

    def __exit__(self, *exception: object) -> None:
        _set(self._before)

    def __call__(self, function: F) -> F:
        # As a decorator it must not leave the switch thrown that the constructor threw.
        _set(self._before)
        return super().__call__(function)


class inference_mode(_Mode):
    """Record nothing and make inference tensors, which are cheaper and can never enter a graph."""

    def __new__(cls, mode: Any = True) -> Any:
        return object.__new__(cls) if isinstance(mode, bool) else _decorator(cls, mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.on = mode

    def word(self, now: int) -> int:
        return (now & ~GRAD) | INFERENCE if self.on else now & ~INFERENCE | GRAD

    def clone(self) -> _Mode:
        return inference_mode(self.on)


def _set(word: int) -> int:
    before = get_mode()
    mode.set(word)
    return before


def is_grad_enabled() -> bool:
    """Return whether calls record a graph here and now."""
    return bool(get_mode() & GRAD)


def is_inference_mode_enabled() -> bool:
    """Return whether inference mode is on here and now."""
    return bool(get_mode() & INFERENCE)


class set_multithreading_enabled(contextlib.nullcontext[None]):
    """Accept whether backward may use several threads; a pass runs in the thread that starts it, always."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = mode


def is_multithreading_enabled() -> bool:
    """Return False: a backward pass runs in the thread that starts it."""
    return False


class enforce_grad_layout_policy(_Mode):
    """Accept whether `.grad` must be laid out like its leaf; here it always is."""

    def __init__(self, enable: bool = True) -> None:
        super().__init__()
        self.mode = enable

    def word(self, now: int) -> int:
        return now

    def clone(self) -> _Mode:
        return enforce_grad_layout_policy(self.mode)


@contextlib.contextmanager
def unsafe_preserve_version_counter(tensors: Tensor | tuple[Tensor, ...]) -> Generator[None]:
    """Let writes to the tensors inside go unnoticed: graphs that saved them will use the changed values."""
    given = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    before = [(r.version, r.seq) if (r := alias.record_of(t)) is not None else (0, 0) for t in given]
    try:
        yield
    finally:
        for t, (version, seq) in zip(given, before):
            record = alias.record_of(t)
            if record is not None:
                record.version, record.seq = version, seq


def unsafe_set_version_counter(tensors: Tensor | tuple[Tensor, ...], versions: int | tuple[int, ...]) -> None:
    """Set the number of writes of each tensor; graphs take values for intact that were saved at that number.

    Raises:
        ArgumentError: there is not one version for each tensor, or one is negative.
    """
    given = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    numbers = (versions,) if isinstance(versions, int) else tuple(versions)
    if len(given) != len(numbers) or any(v < 0 for v in numbers):
        raise ArgumentError(
            f"unsafe_set_version_counter: one version from 0 on is expected for each of the {len(given)} tensors, got "
            f"{numbers}"
        )
    for t, v in zip(given, numbers):
        while alias.version(t) < v:
            alias.stamp(t, "unsafe_set_version_counter")
        record = alias.record_of(t)
        if record is not None and v < record.version:
            # Writes after version `v` are forgotten; the one before them is the latest again.
            del record.writes[max(0, len(record.writes) - (record.version - v)) :]
            record.version, record.seq = v, record.writes[-1][0] if record.writes else 0
