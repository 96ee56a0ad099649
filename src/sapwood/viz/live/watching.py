"""`watch`: what a program calls to see its training in the browser."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.tensor import Tensor
from sapwood.viz.live.collector import Collector
from sapwood.viz.live.record import Record

if TYPE_CHECKING:
    from sapwood.viz.live.server import Server

__all__ = ["Progress", "Watch", "watch"]

# Seconds between two rounds of the background thread, and the share of the time that the rounds may take.
ROUND, ROUND_SHARE = 0.25, 0.003


class Progress(NamedTuple):
    """Where a run is.

    Attributes:
        step: steps taken.
        total: steps there will be; None if that was not said.
        rate: steps per second of late.
        left: seconds until the end at this rate; None if that is not known.
    """

    step: int
    total: int | None
    rate: float
    left: float | None


def watch(
    model: Any,
    optimizer: Any = None,
    *,
    total: int | None = None,
    port: int = 0,
    every: int | None = None,
    histogram_every: int | None = None,
    open: bool = False,
) -> Watch:
    """Serve a page on this machine that shows the training of a model while it runs.

    Hooks of the optimizer look at every k-th step: norms of gradients and weights, the update ratio ‖Δw‖ / ‖w‖, now and
    then a histogram, and the first value that is not finite. k follows from what a look costs, so that watching takes
    less than 2 % of the time. Memory: a copy of the weights, and curves of a bounded number of points.

    Args:
        model: the module whose parameters are watched.
        optimizer: counts the steps; by default every optimizer that changes parameters of the model.
        total: steps there will be, for the time that is left.
        port: of 127.0.0.1; 0 for any that is free.
        every: look at every so many steps instead, whatever it costs. 1 finds the exact step of the first NaN.
        histogram_every: likewise for histograms, in steps; they are taken at steps that are looked at.
        open: show the page in the browser.

    Returns:
        A Watch; it ends with `close()`, at the end of its `with` block, with the optimizer (or the model), or with the
        program.

    Raises:
        ArgumentError: model or optimizer is of another kind, or has no parameters in common with the other.
        ValueRangeError: a number of steps is less than 1, or the port cannot be had.

    Example:
        >>> import sapwood
        >>> from sapwood.viz import watch
        >>> model = sapwood.nn.Linear(2, 1)
        >>> optimizer = sapwood.optim.SGD(model.parameters(), lr=0.1)
        >>> with watch(model, optimizer, total=3) as seen:
        ...     for _ in range(3):
        ...         optimizer.zero_grad()
        ...         loss = model(sapwood.ones(4, 2)).square().mean()
        ...         loss.backward()
        ...         optimizer.step()
        ...         seen.log(loss=loss)
        >>> seen.progress.step
        3
    """
    for name, number in (("total", total), ("every", every), ("histogram_every", histogram_every)):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise ArgumentError(f"watch: {name} is a number of steps, got {type(number).__name__}")
        if number is not None and number < 1:
            raise ValueRangeError(f"watch: {name} is a number of steps, at least 1, got {number}")
    if not hasattr(model, "named_parameters"):
        raise ArgumentError(f"watch: expected a module, got {type(model).__name__}; give what holds the parameters")
    if optimizer is not None and not hasattr(optimizer, "param_groups"):
        raise ArgumentError(f"watch: expected an optimizer, got {type(optimizer).__name__}")
    collector = Collector(model, every=every, histogram_every=histogram_every)
    if not collector.names:
        raise ArgumentError(f"watch: {type(model).__name__} has no parameters, so there is nothing to watch")
    if optimizer is not None and not collector.owns(optimizer):
        raise ArgumentError(
            f"watch: this {type(optimizer).__name__} changes no parameter of this {type(model).__name__}; "
            "give the optimizer that was made from model.parameters()"
        )
    watched = Watch(model, optimizer, collector, total, port)
    if open:
        import webbrowser

        webbrowser.open(watched.url)
    return watched


class Watch:
    """A run that is shown in the browser; `watch` makes it.

    Attributes:
        url: where the page is; the address holds a secret, which is what keeps other programs out.
    """

    def __init__(self, model: Any, optimizer: Any, collector: Collector, total: int | None, port: int) -> None:
        # Servers, sockets and mail headers: not for programs that do not watch.
        from sapwood.viz.live.server import Server

        self._collector = collector
        self._record = Record(type(model).__name__, collector.names, collector.shapes, total)
        self._costs = _Costs(collector)
        server = Server(self._record, port, self._costs.add)
        self.url = server.url
        handle = _hook(optimizer, collector)
        rounds = _Rounds(collector, self._record, self._costs)
        # Not bound to this object, which a program need not keep.
        owner = model if optimizer is None else optimizer
        self._finish = weakref.finalize(owner, _end, os.getpid(), handle, collector, rounds, self._record, server)
        _alive[server] = collector
        # Called before what `finalize` calls at exit, since registered after it.
        atexit.unregister(_leave)
        atexit.register(_leave)

    def log(self, *, step: int | None = None, **values: Any) -> None:
        """Add values to curves, which appear in the page under the names they are given here.

        Args:
            step: the step they belong to; by default the number of steps taken so far.
            values: numbers, or tensors of one element, such as `loss=loss, accuracy=0.5`.

        Raises:
            ArgumentError: a value is not a real number.
        """
        begin = perf_counter()
        collector = self._collector
        for name, value in values.items():
            if type(value) is Tensor and not value._array.ndim:
                value = values[name] = value._array.item()
            if type(value) is not float:
                values[name] = _number(name, value)
        collector.logs.append((collector.step if step is None else int(step), values))
        collector.spent += perf_counter() - begin

    @property
    def progress(self) -> Progress:
        """Where the run is."""
        record, step = self._record, self._collector.step
        with record.changed:
            rate = record.rate()
        left = None if record.total is None or not rate else max(0, record.total - step) / rate
        return Progress(step, record.total, rate, left)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What was found that is not finite, in words."""
        with self._record.changed:
            return tuple(alarm["text"] for alarm in self._record.alarms)

    @property
    def cost(self) -> float:
        """The share of the time since the beginning that watching has taken, between 0 and 1, as measured by itself."""
        return self._costs.share()

    @property
    def closed(self) -> bool:
        """Whether the run has ended."""
        return not self._finish.alive

    def close(self) -> None:
        """End the watch: hooks go, open pages hear of it, threads end, the port is free. A second call does nothing."""
        self._finish()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: object) -> None:
        if problem is not None:
            self._costs.stop()
            self._record.end(stopped_by(problem))
        self.close()

    def __repr__(self) -> str:
        state = "ended" if self.closed else self.url
        return f"Watch({state}, step {self._collector.step})"


def _number(name: str, value: Any) -> float:
    """Return a logged value as a float; nothing of a tensor is kept."""
    array = value._array if isinstance(value, Tensor) else value
    try:
        if isinstance(array, str | bytes):
            raise TypeError
        return float(array.item() if hasattr(array, "item") else array)
    except (TypeError, ValueError):
        kind = type(value).__name__ + (f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else "")
        raise ArgumentError(f"log: {name} is a {kind}, expected a number or a tensor of one element") from None


class _Costs:
    """Adds up what watching costs, in all threads."""

    def __init__(self, collector: Collector) -> None:
        self._collector, self._guard = collector, threading.Lock()
        self._background, self._begin, self._end = 0.0, perf_counter(), 0.0

    def add(self, seconds: float) -> None:
        with self._guard:
            self._background += seconds

    def stop(self) -> None:
        self._end = self._end or perf_counter()

    def share(self) -> float:
        return (self._collector.spent + self._background) / max(1e-9, (self._end or perf_counter()) - self._begin)


class _Rounds:
    """The background thread, which moves what the collector has found into the record."""

    def __init__(self, collector: Collector, record: Record, costs: _Costs) -> None:
        self._collector, self._record, self._costs = collector, record, costs
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name="sapwood-watch", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        pause = ROUND
        while not self._stop.wait(pause):
            begin = thread_time()
            self.once()
            spent = thread_time() - begin
            self._costs.add(spent)
            pause = min(2.0, max(ROUND, spent / ROUND_SHARE))

    def once(self) -> None:
        collector, record = self._collector, self._record
        events, logs = ([q.popleft() for _ in range(len(q))] for q in (collector.events, collector.logs))
        record.absorb(events, logs, collector.step, self._costs.share())
        collector.background = record.seconds_each("look"), record.seconds_each("histogram")

    def finish(self) -> None:
        self._stop.set()
        if self.thread is not threading.current_thread():
            self.thread.join()
        self._costs.stop()
        self.once()


def _hook(optimizer: Any, collector: Collector) -> Any:
    """Have the collector follow one optimizer, or all that change watched parameters; return the handle."""
    if optimizer is not None:
        lane = collector.lane(optimizer)
        lane.prepare(optimizer)
        return optimizer.register_step_post_hook(lane.after)
    from sapwood.optim.optimizer import register_optimizer_step_post_hook

    known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        hook = known.get(optimizer)
        if hook is None:
            owned = collector.owns(optimizer)
            hook = known[optimizer] = collector.lane(optimizer).after if owned else _nothing
        hook(optimizer, args, kwargs)

    return register_optimizer_step_post_hook(after)


def _nothing(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Follow an optimizer of other parameters."""


def stopped_by(problem: BaseException) -> str:
    """Return why a run ended, in words."""
    if isinstance(problem, KeyboardInterrupt):
        return "Training was interrupted from the keyboard."
    text = str(problem)
    return f"Training was stopped by {type(problem).__name__}" + (f": {text}" if text else ".")


def _end(pid: int, handle: Any, collector: Collector, rounds: _Rounds, record: Record, server: Server) -> None:
    handle.remove()
    collector.stop()
    _alive.pop(server, None)
    if pid != os.getpid():
        return
    rounds.finish()
    # At the interpreter's exit, what stopped the program is what it printed last.
    problem = getattr(sys, "last_value", None) if _leaving and not hasattr(sys, "ps1") else None
    record.end("Training ended." if problem is None else stopped_by(problem))
    server.close()


_leaving = False


def _leave() -> None:
    global _leaving
    _leaving = True


_alive: weakref.WeakKeyDictionary[Server, Collector] = weakref.WeakKeyDictionary()


def _forget() -> None:
    """In a forked child, where no thread serves: give the socket back and look at nothing."""
    for server, collector in list(_alive.items()):
        server.socket.close()
        collector.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
