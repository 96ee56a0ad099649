"""The random number generator: MT19937, seeded, saved and consumed as PyTorch's CPU generator does it.

NumPy's bit generator supplies the 32-bit words. `numpy.random` takes tens of milliseconds to import, so that it is
loaded by the first draw and not by the import of this package.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import index
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.device import CPU
from sapwood.device import device as Device
from sapwood.errors import ArgumentError, DtypeError, LoadError, MissingError, ValueRangeError
from sapwood.tensor import Tensor, wrap

if TYPE_CHECKING:
    from numpy.random import MT19937
    from numpy.typing import NDArray

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]

WORDS = 624
"""Words in the state of MT19937."""

STATE = np.dtype(
    [
        ("seed", "<u8"),
        ("left", "<i4"),
        ("seeded", "<i4"),
        ("next", "<u8"),
        ("key", "<u8", WORDS),
        ("normal_x", "<f8"),
        ("normal", "<f8"),
        ("normal_rho", "<f8"),
        ("has_normal", "<i4"),
        ("pad", "<i4"),
        ("float_normal", "<f4"),
        ("has_float_normal", "u1"),
        ("tail", "u1", 3),
    ]
)
"""The 5056 bytes in which PyTorch saves a CPU generator. Words are stored 64 bits wide."""

_DEFAULT_SEED = 67280421310721
"""The seed of a new generator in PyTorch: the larger prime factor of 2**64 + 1."""


_BATCH = 16384
"""Numbers drawn together: their words stay in the cache until they are converted."""
_HALF, _LOW24, _LOW53 = np.uint64(32), np.uint64(2**24 - 1), np.uint64(2**53 - 1)
_ULP24 = np.float32(2.0**-24)


def native(n: int) -> Any:
    """Return the kernels that draw if so many numbers are worth them, else None; the stream is the same."""
    if n < 256:
        return None
    from sapwood.ops.warm import serve

    if not serve(n):
        return None
    from sapwood.kernels import twister

    return twister


class Generator:
    """Hold one stream of random numbers.

    Two generators with the same seed give the same numbers, and the same as `torch.Generator` on the CPU.
    Draws lock the generator, so that threads may share it.

    Example:
        >>> Generator().manual_seed(0).words(2).tolist()
        [2357136044, 2546248239]
    """

    __slots__ = (
        *("__weakref__", "_address", "_bits", "_device", "_fresh", "_seed", "_stale"),
        *("float_normal", "lock", "normal"),
    )

    def __init__(self, device: Any = "cpu") -> None:
        if str(device).partition(":")[0] != "cpu":
            raise MissingError(f"Generator: only device 'cpu' has a generator, got {str(device)!r}; use 'cpu'")
        self._device = Device(device) if device != "cpu" else CPU
        self._bits: MT19937 | None = None
        self._address: int | None = None
        self.lock = RLock()
        self._reseed(_DEFAULT_SEED)

    def _reseed(self, seed: int) -> None:
        self._seed = seed
        self._stale = True  # the engine is seeded by the first draw
        self._fresh = True  # nothing drawn since seeding: PyTorch saves that differently from "all words used"
        self.normal: float | None = None
        self.float_normal: float | None = None

    @property
    def device(self) -> Any:
        """The device as given to the constructor."""
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream that belongs to `seed` and return self.

        Args:
            seed: int in [-2**63, 2**64); a negative one stands for seed + 2**64. Its low 32 bits choose the stream.

        Raises:
            ArgumentError: seed is not an int.
            ValueRangeError: seed does not fit into 64 bits.
        """
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise _SeedError(f"manual_seed: seed must be an int, got {type(seed).__name__}; convert it with int()")
        seed = index(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueRangeError(f"manual_seed: seed must lie in [-2**63, 2**64), got {seed}; take it modulo 2**64")
        with self.lock:
            self._reseed(seed % 2**64)
        return self

    def seed(self) -> int:
        """Seed from the operating system's entropy and return the seed, a 64-bit int."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Return the seed that the current stream was started with, in [0, 2**64)."""
        return self._seed

    def engine(self) -> MT19937:
        """Return NumPy's bit generator, seeded. Hold `lock` while drawing from it."""
        if self._bits is None:
            from numpy.random import MT19937

            self._bits = MT19937(0)
        if self._stale:
            self._bits._legacy_seeding(self._seed & 0xFFFFFFFF)
            self._stale = False
        return self._bits

    def address(self) -> int:
        """Return where native code finds the seeded state, and count it as used. Hold `lock` while it draws."""
        engine = self.engine()
        self._fresh = False
        if self._address is None:
            self._address = int(engine.ctypes.state_address)
        return self._address

    def words(self, n: int) -> NDArray[np.uint64]:
        """Draw n 32-bit words: (n,), uint64 with the upper halves zero."""
        with self.lock:
            bits = self.engine()
            if n:
                self._fresh = False
            return bits.random_raw(n)

    def _batches(self, n: int, width: int) -> Iterator[tuple[slice, NDArray[np.uint64]]]:
        """Draw `width` words for each of n numbers, in batches that stay in the cache. Hold `lock` meanwhile."""
        for start in range(0, n, _BATCH):
            stop = min(start + _BATCH, n)
            yield slice(start, stop), self.words(width * (stop - start))

    def words64(self, n: int) -> NDArray[np.uint64]:
        """Draw n 64-bit words, each made of two draws with the first one high: (n,), uint64."""
        out = np.empty(n, np.uint64)
        with self.lock:
            for part, words in self._batches(n, 2):
                np.left_shift(words[::2], _HALF, out=out[part])
                out[part] |= words[1::2]
        return out

    def uniform24(self, n: int) -> NDArray[np.float32]:
        """Draw n multiples of 2**-24 in [0, 1), one word each: (n,), float32."""
        out = np.empty(n, np.float32)
        with self.lock:
            kernels = native(n)
            if kernels is not None:
                kernels.uniform(self.address(), out)
                return out
            for part, words in self._batches(n, 1):
                words &= _LOW24
                np.multiply(words.view(np.int64).astype(np.int32), _ULP24, out=out[part], dtype=np.float32)
        return out

    def bits53(self, n: int) -> NDArray[np.int64]:
        """Draw n integers in [0, 2**53), two words each: (n,), int64."""
        words = self.words64(n)
        words &= _LOW53
        return words.view(np.int64)

    def uniform53(self, n: int) -> NDArray[np.float64]:
        """Draw n multiples of 2**-53 in [0, 1), two words each: (n,), float64."""
        out = np.empty(n)
        with self.lock:
            kernels = native(n)
            if kernels is not None:
                kernels.uniform(self.address(), out)
                return out
            for part, words in self._batches(n, 2):
                high = words[::2] << _HALF
                high |= words[1::2]
                high &= _LOW53
                np.multiply(high.view(np.int64), 2.0**-53, out=out[part])
        return out

    @contextmanager
    def doubles(self) -> Iterator[Callable[[], float]]:
        """Give a function that draws one `uniform53` at a time, for samplers that reject.

        Words are drawn in batches; on leaving, the stream is put back to right after the last number handed out.
        """
        with self.lock:
            bits = self.engine()
            start = bits.state
            buffer: list[float] = []
            drawn, batch = 0, 16

            def draw() -> float:
                nonlocal drawn, batch
                if not buffer:
                    batch = min(4 * batch, 65536)
                    drawn += batch
                    buffer.extend(self.uniform53(batch)[::-1].tolist())
                return buffer.pop()

            fresh = self._fresh
            try:
                yield draw
            finally:
                used = drawn - len(buffer)
                bits.state = start
                if used:
                    bits.random_raw(2 * used, output=False)
                else:
                    self._fresh = fresh

    def get_state(self) -> Tensor:
        """Return the state as PyTorch saves it: (5056,), uint8."""
        return wrap(self.state_bytes())

    def state_bytes(self) -> NDArray[np.uint8]:
        """Return the state as an array: (5056,), uint8."""
        with self.lock:
            engine: Any = self.engine().state["state"]
            state = np.zeros((), STATE)
            position = int(engine["pos"])
            state["seed"], state["seeded"], state["key"] = self._seed, 1, engine["key"]
            state["left"], state["next"] = (1, 0) if self._fresh else (WORDS + 1 - position, position)
            if self.normal is not None:
                state["normal"], state["has_normal"] = self.normal, 1
            if self.float_normal is not None:
                state["float_normal"], state["has_float_normal"] = self.float_normal, 1
            return np.frombuffer(state.tobytes(), np.uint8).copy()

    def set_state(self, new_state: Any) -> None:
        """Continue from a state saved by `get_state`, here or in PyTorch: a tensor or an array.

        Raises:
            DtypeError: new_state is not an array of bytes.
            LoadError: it has the wrong size or holds no valid state.
        """
        data = new_state._array if isinstance(new_state, Tensor) else np.asarray(new_state)
        if data.dtype != np.uint8:
            raise DtypeError(
                f"set_state: a state is an array of uint8, got {data.dtype}; pass what get_state() returned"
            )
        if data.size != STATE.itemsize:
            raise LoadError(f"set_state: a state has {STATE.itemsize} bytes, got {data.size}; was it cut or padded?")
        state: Any = np.frombuffer(np.ascontiguousarray(data).tobytes(), STATE)[0]
        left, position = int(state["left"]), int(state["next"])
        if not (state["seeded"] and 0 < left <= WORDS and position <= WORDS):
            raise LoadError("set_state: the bytes hold no MT19937 state; pass what get_state() returned")
        with self.lock:
            self._seed = int(state["seed"])
            self._stale = False
            self.engine().state = {
                "bit_generator": "MT19937",
                "state": {"key": state["key"].astype(np.uint32), "pos": WORDS if left == 1 else position},
            }
            self._fresh = left == 1 and position == 0
            self.normal = float(state["normal"]) if state["has_normal"] else None
            self.float_normal = float(state["float_normal"]) if state["has_float_normal"] else None

    def clone_state(self) -> Generator:
        """Return a new generator that continues exactly as this one does."""
        clone = Generator(self._device)
        clone.set_state(self.state_bytes())
        return clone

    def __reduce__(self) -> tuple[Any, ...]:
        return Generator, (str(self._device),), self.state_bytes()

    def __setstate__(self, state: NDArray[np.uint8]) -> None:
        self.set_state(state)

    def __repr__(self) -> str:
        return f"<sapwood.Generator on {self._device}, seed {self._seed}>"


class _SeedError(ArgumentError, RuntimeError):
    """A seed of the wrong type: PyTorch raises RuntimeError where Python would raise TypeError."""


default_generator = Generator()
"""The generator that draws without one use. Seeded from the operating system's entropy at import."""
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator with int(seed) and return it."""
    return default_generator.manual_seed(int(seed))


def thread_safe_generator() -> Generator | None:
    """Return the generator of a data loader's worker thread, None in any other thread: it uses the default one."""
    return None


def seed() -> int:
    """Seed the default generator from the operating system's entropy and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the default generator: (5056,), uint8."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Set the state of the default generator to what `get_rng_state` returned."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str | None = None
) -> Iterator[None]:
    """Give the default generator its state back when the block ends, however it ends.

    Args:
        devices: accepted for PyTorch programs; the CPU's generator, the only one, is always forked.
        enabled: False lets the block change the generator for good.
        device_type: "meta" also leaves the generator alone.
    """
    if not enabled or device_type == "meta":
        yield
        return
    state = default_generator.get_state()
    try:
        yield
    finally:
        default_generator.set_state(state)
