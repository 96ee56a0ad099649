"""Sequences of different lengths in one tensor: padded, or packed step by step."""

from __future__ import annotations

from collections import namedtuple
from itertools import pairwise
from typing import Any

from ... import dtypes, ops
from ...errors import ValueRangeError
from ...tensor import Tensor

_Packed = namedtuple(
    "_Packed", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"], defaults=(None, None, None)
)


class PackedSequence(_Packed):
    """Sequences as one run of steps, longest first: first all first elements, then all second elements, …

    Fields:
        data: (sum of lengths, *).
        batch_sizes: at each step, how many sequences still run.
        sorted_indices: the order in which the sequences were taken, None if they came sorted.
        unsorted_indices: the inverse of that order.
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> PackedSequence:
        if batch_sizes is None:
            if not isinstance(data, tuple | list) or len(data) != 2:
                raise ValueRangeError("PackedSequence: data and batch_sizes are needed")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the sequence with its data converted as by Tensor.to."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, *self[1:])

    def cpu(self) -> PackedSequence:
        """Return the sequence: it is on the CPU."""
        return self

    def double(self) -> PackedSequence:
        """Return the sequence in float64."""
        return self.to(dtypes.float64)

    def float(self) -> PackedSequence:
        """Return the sequence in float32."""
        return self.to(dtypes.float32)

    def half(self) -> PackedSequence:
        """Return the sequence in float16."""
        return self.to(dtypes.float16)

    def long(self) -> PackedSequence:
        """Return the sequence in int64."""
        return self.to(dtypes.int64)

    def int(self) -> PackedSequence:
        """Return the sequence in int32."""
        return self.to(dtypes.int32)

    @property
    def is_cuda(self) -> bool:
        """Whether the data lives on a GPU: no."""
        return False

    def is_pinned(self) -> bool:
        """Return whether the data lives in pinned memory: no."""
        return False


def invert_permutation(permutation: Any) -> Any:
    """Return the permutation that undoes a given one, None for None."""
    if permutation is None:
        return None
    return ops.argsort(permutation)


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch.

    Args:
        input: (L, N, *), or (N, L, *) with batch_first.
        lengths: of each sequence, at least 1.
        batch_first: see input.
        enforce_sorted: the sequences come longest first; else they are sorted here, and back by the reader.

    Raises:
        ValueRangeError: lengths do not fit the batch, are not positive, or not sorted though they must be.
    """
    given = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    order = None
    if not enforce_sorted:
        order = ops.argsort(ops.tensor(given, dtype=dtypes.int64), dim=0, descending=True, stable=True)
        given = sorted(given, reverse=True)
        input = input.index_select(0 if batch_first else 1, order)
    steps = input.transpose(0, 1) if batch_first else input
    if len(given) != steps.size(1):
        raise ValueRangeError(f"pack_padded_sequence: {steps.size(1)} sequences and {len(given)} lengths were given")
    if any(a < b for a, b in pairwise(given)):
        raise ValueRangeError(
            "pack_padded_sequence: lengths must not increase; pass enforce_sorted=False to have them sorted"
        )
    if not given or given[-1] <= 0:
        raise ValueRangeError("pack_padded_sequence: every sequence needs at least one step")
    if given[0] > steps.size(0):
        raise ValueRangeError(f"pack_padded_sequence: a length is {given[0]}, the input has {steps.size(0)} steps")
    sizes = [sum(n > t for n in given) for t in range(given[0])]
    data = ops.cat([steps[t, :n] for t, n in enumerate(sizes)], 0)
    return PackedSequence(data, ops.tensor(sizes, dtype=dtypes.int64), order, None)


def pad_packed_sequence(
    sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """Undo `pack_padded_sequence`: return the padded batch and the lengths.

    Args:
        sequence: what was packed.
        batch_first: whether to return (N, L, *) instead of (L, N, *).
        padding_value: put after the end of each sequence.
        total_length: L, if it should exceed the longest length.
    """
    sizes = sequence.batch_sizes.tolist()
    length = len(sizes)
    if total_length is not None:
        if total_length < length:
            raise ValueRangeError(f"pad_packed_sequence: total_length={total_length} is below the longest, {length}")
        length = total_length
    width = sizes[0]
    data = sequence.data
    rest = tuple(data.shape[1:])
    rows = []
    for part in data.split(sizes, 0):
        n = part.size(0)
        if n < width:
            part = ops.cat([part, ops.full((width - n, *rest), padding_value, dtype=data.dtype)], 0)
        rows.append(part)
    rows += [ops.full((width, *rest), padding_value, dtype=data.dtype)] * (length - len(sizes))
    out = ops.stack(rows, 0)
    lengths = ops.tensor([sum(n > i for n in sizes) for i in range(width)], dtype=dtypes.int64)
    if sequence.unsorted_indices is not None:
        out = out.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return (out.transpose(0, 1) if batch_first else out), lengths


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Put sequences (L_i, *) side by side, padded to the longest: (L, N, *), or (N, L, *) with batch_first.

    Args:
        sequences: an iterable of tensors.
        batch_first: see above.
        padding_value: the value that fills up.
        padding_side: "right" (after the end) or "left".
    """
    if padding_side not in ("right", "left"):
        raise ValueRangeError(f"pad_sequence: padding_side must be 'right' or 'left', got {padding_side!r}")
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    listed = list(sequences)
    if not listed:
        raise ValueRangeError("pad_sequence: at least one sequence is needed")
    longest = max(s.size(0) for s in listed)
    padded = []
    for s in listed:
        missing = longest - s.size(0)
        if missing:
            filler = ops.full((missing, *s.shape[1:]), padding_value, dtype=s.dtype)
            s = ops.cat([s, filler] if padding_side == "right" else [filler, s], 0)
        padded.append(s)
    return ops.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """Undo `pad_sequence`: return the sequences, cut to their lengths."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows.unbind(0), lengths)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences (L_i, *)."""
    lengths = [s.size(0) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: Any) -> list[Any]:
    """Undo `pack_sequence`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
