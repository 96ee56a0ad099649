"""What writes a model's nodes, constants and sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sapwood.errors import ExportError, MissingError
from sapwood.export.onnx.sizes import Runs, Size, formula_of, varies
from sapwood.graph.ir import Value

__all__ = ["CONSTANT", "TYPES", "Writer", "package"]

CONSTANT = "constant__"
"""What names of constants begin with that no parameter is."""

TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
}  # fmt: skip
"""ONNX's numbers for element types (TensorProto.DataType)."""


def package() -> Any:
    """Return the package onnx.

    Raises:
        MissingError: it is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise MissingError("export: the package onnx is not installed; pip install sapwood[onnx]") from None
    return onnx


class Writer:
    """The nodes and constants of a model in the making, and the dynamic sizes that they follow."""

    def __init__(self, opset: int) -> None:
        self.onnx = package()
        self.opset = opset
        self.inputs: list[str] = []
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.known: dict[str, str] = {}
        """ONNX names by value names."""
        self.doc = ""
        self.dynamic: dict[int, dict[str, Any]] = {}
        """By the identity of a call: attributes that other sizes change in a way that is not followed."""
        self.runs: Runs | None = None
        """The function's runs on other sizes."""
        self.heads: list[Any] = []
        """Nodes that come first: they read the dynamic sizes."""
        self._read: dict[Any, str] = {}
        self.here = ""
        """The op that is written, and its line."""
        self._count = 0

    # What builders use.

    def name(self, hint: str = "t") -> str:
        """Return a name that is not used yet."""
        self._count += 1
        return f"{hint}__{self._count}"

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Write a node; return the name of its result, or the names of several.

        Args:
            inputs: names; None for an optional one that is left out; arrays become constants.
            outputs: how many results it has.
            attributes: ONNX's; None ones are left out.
        """
        given = ["" if x is None else x if isinstance(x, str) else self.constant(x) for x in inputs]
        while given and not given[-1]:
            given.pop()
        made = [self.name(kind.lower()) for _ in range(outputs)]
        kept = {k: v for k, v in attributes.items() if v is not None}
        for k, v in kept.items():
            if varies(v):
                raise ExportError(f"export: {self.here}: {k} of ONNX's {kind} cannot follow a dynamic size")
        node = self.onnx.helper.make_node(kind, given, made, name=self.name(kind), doc_string=self.doc, **kept)
        self.nodes.append(node)
        return made[0] if outputs == 1 else made

    def constant(self, array: Any) -> str:
        """Return the name of a constant; equal ones are shared."""
        a = np.asarray(array)
        for name, old in self.initializers.items():
            alike = name.startswith(CONSTANT) and old.dtype == a.dtype and old.shape == a.shape and a.size <= 16
            if alike and np.array_equal(old, a, equal_nan=a.dtype.kind == "f"):
                return name
        name = self.name(CONSTANT.rstrip("_"))
        self.initializers[name] = a
        return name

    def tensor(self, array: Any) -> Any:
        """Return an array as an attribute holds it."""
        return self.onnx.numpy_helper.from_array(np.asarray(array))

    def ints(self, *values: int) -> str:
        """Return the name of a vector of int64: a constant, or what the model computes from dynamic sizes."""
        if not varies(values):
            return self.constant(np.array(values, np.int64))
        parts = []
        for _, group in itertools.groupby(enumerate(values), lambda v: isinstance(v[1], Size) and v[0] + 1):
            run = [v for _, v in group]
            parts.append(self.size(run[0]) if isinstance(run[0], Size) else self.ints(*run))
        return parts[0] if len(parts) == 1 else str(self.op("Concat", *parts, axis=0))

    def shape(self, *values: int) -> str:
        """Return the name of a shape for Reshape, which infers a single dynamic size by itself."""
        if sum(isinstance(v, Size) for v in values) == 1 and 0 not in values and -1 not in values:
            return self.ints(*(-1 if isinstance(v, Size) else v for v in values))
        return self.ints(*values)

    def number(self, value: Any, dtype: Any) -> Any:
        """Return a number as an operand of a type (sapwood's): an array, or a dynamic size."""
        if not isinstance(value, Size):
            return np.asarray(value, dtype.numpy)
        return self.op("Cast", self.op("Squeeze", self.size(value), self.ints(0)), to=TYPES[dtype.name])

    def full(self, value: Any, size: int, dtype: Any) -> str:
        """Return a vector of one value."""
        if isinstance(size, Size):
            return str(self.op("Expand", np.asarray(value, dtype.numpy), self.size(size)))
        return self.constant(np.full(size, value, dtype.numpy))

    def size(self, size: Size) -> str:
        """Return the name of a vector of one int64: a dynamic size, which the model reads or computes.

        Raises:
            ExportError: it follows the dynamic sizes in no way that is known.
        """
        if size.runs in self._read:
            return self._read[size.runs]
        assert self.runs is not None
        symbols = self.runs.symbols
        formula = formula_of(size.runs, symbols)
        if formula is None:
            raise ExportError(
                f"export: {self.here}: a size that is {', '.join(map(str, size.runs))} where "
                + " and ".join(f"{w} is {', '.join(map(str, n))}" for w, n in symbols.items())
                + " follows no formula that is known; export with fixed sizes"
            )
        k, words, c, d = formula
        nodes, self.nodes, doc, self.doc = self.nodes, self.heads, self.doc, ""
        read = []
        for word in words:
            if word not in self._read:
                i, axis = self.runs.places[word]
                self._read[word] = self.op("Shape", self.inputs[i], start=axis, end=axis + 1)
            read.append(self._read[word])
        made = read[0]
        for other in read[1:]:
            made = self.op("Mul", made, other)
        made = self.op("Mul", made, self.ints(k)) if k != 1 else made
        made = self.op("Add", made, self.ints(c)) if c else made
        made = self.op("Div", made, self.ints(d)) if d != 1 else made
        self.nodes, self.doc = nodes, doc
        self._read[size.runs] = made
        return made

    def take(self, value: Value, others: Sequence[Any]) -> None:
        """Know a constant; `others` are what it was in runs on other sizes.

        Raises:
            ExportError: it differs between the runs, in a way that ONNX cannot compute.
        """
        first = value.data.detach().numpy()
        arrays = [first, *(o.data.detach().numpy() for o in others)]
        if all(a.shape == first.shape and np.array_equal(a, first, equal_nan=a.dtype.kind == "f") for a in arrays):
            name = value.name if value.name not in self.initializers else self.name(value.name)
            self.initializers[name] = first
            self.known[value.name] = name
            return
        self.here = f"a constant of shape {tuple(map(int, value.shape))}"
        moving = [d for d, n in enumerate(value.shape) if isinstance(n, Size)]
        rows = [a[tuple(slice(1) if d in moving else slice(None) for d in range(a.ndim))] for a in arrays]
        if moving and all(np.array_equal(r, rows[0]) and (a == r).all() for a, r in zip(arrays, rows)):
            # The same for every place along the dynamic dimensions.
            self.known[value.name] = self.op("Expand", self.constant(rows[0]), self.ints(*value.shape))
            return
        flat = [a.reshape(-1) for a in arrays]
        if all(a.size == 1 and math.isfinite(a[0]) and a[0] == int(a[0]) for a in flat):
            scalar = self.number(Size(int(flat[0][0]), [int(a[0]) for a in flat[1:]]), value.dtype)
            self.known[value.name] = self.op("Reshape", scalar, self.ints(*value.shape))
            return
        if self._triangle(value, arrays):
            return
        if any(a.size < 2 for a in flat[1:]):
            raise self._otherwise(value)
        start, step = flat[0][0], (flat[0][1] - flat[0][0] if flat[0].size > 1 else flat[1][1] - flat[1][0])
        if first.dtype.kind in "if" and all(
            np.array_equal(a, start + np.arange(a.size, dtype=a.dtype) * step) for a in flat
        ):
            count = self.op("Squeeze", self.ints(math.prod(value.shape)), self.ints(0))
            line = self.op("Range", np.int64(0), count, np.int64(1))
            line = self.op("Mul", self.op("Cast", line, to=TYPES[value.dtype.name]), np.asarray(step))
            self.known[value.name] = self.op("Reshape", self.op("Add", line, start), self.ints(*value.shape))
            return
        raise self._otherwise(value)

    def _otherwise(self, value: Value) -> ExportError:
        return ExportError(
            f"export: {self.here} ({value.name}) comes out otherwise for other sizes; compute it from the inputs, or "
            "export with fixed sizes"
        )

    def _triangle(self, value: Value, arrays: Sequence[Any]) -> bool:
        """Write a constant that has one value below a diagonal and another above it, as causal masks do."""
        if arrays[0].ndim < 2 or any(a.size != a.shape[-1] * a.shape[-2] for a in arrays):
            return False
        low, high = arrays[-1].reshape(-1)[-arrays[-1].shape[-1]], arrays[-1].reshape(-1)[arrays[-1].shape[-1] - 1]
        for k in (-1, 0):
            if all(
                np.array_equal(
                    a, np.where(np.tri(a.shape[-2], a.shape[-1], k, bool), low, high)[(None,) * (a.ndim - 2)]
                )
                for a in arrays
            ):
                ones = self.op("Expand", np.int64(1), self.ints(*value.shape))
                below = self.op("Cast", self.op("Trilu", ones, np.int64(k), upper=0), to=TYPES["bool"])
                self.known[value.name] = self.op("Where", below, self.constant(low), self.constant(high))
                return True
        return False

    def sizes(self, value: Value) -> list[Any]:
        """Return a value's shape as the model says it: dynamic sizes by their names."""
        symbols = {runs: word for word, runs in self.runs.symbols.items()} if self.runs else {}
        return [
            symbols.get(n.runs, f"{value.name}_{d}") if isinstance(n, Size) else n for d, n in enumerate(value.shape)
        ]

    def cast(self, name: str, old: Any, new: Any) -> str:
        """Return a value as another element type (sapwood dtypes)."""
        return name if old is new else str(self.op("Cast", name, to=TYPES[new.name]))
