"""Which of several equal elements a selection names.

`topk`, `median` and `kthvalue` give the index of one element among equals, and which one follows from how the selection
moves elements. PyTorch selects with the C++ library's introselect, heap selection and introsort, and with a quickselect
of its own for `kthvalue`; these are the same algorithms (Musser 1997; Hoare 1961 with a median of three) on Python
lists. Only rows with ties that matter come here.

Every function takes `key`, the ranks of a row as whole numbers, and moves a list of positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

WORK = 1 << 16
"""Elements of tied rows up to which ties are followed; beyond, the first of equals is named."""

_SMALL = 16
_Row = list[int]


def resolve(found: Any, tied: Any, keys: Any, select: Callable[..., Any], *extra: Any) -> None:
    """Replace the positions in rows of `found` that are tied by those that `select(key, at, …)` gives.

    found: (rows, k) positions, written to; tied: (rows,), bool; keys: (rows, n) ranks, whole numbers;
    extra: arrays of (rows,), whose entries `select` is given too.
    """
    rows = np.flatnonzero(tied)
    if len(rows) * keys.shape[1] > WORK:
        return
    for r in rows:
        key = keys[r].tolist()
        found[r] = select(key, list(range(len(key))), *(e[r] for e in extra))


def quickselect(key: _Row, at: _Row, k: int) -> None:
    """Move positions so that the k-th in order stands at place k (median of three, as `kthvalue`)."""
    low, high = 0, len(at) - 1
    while high > low:
        if high == low + 1:
            if key[at[low]] > key[at[high]]:
                at[low], at[high] = at[high], at[low]
            return
        middle = low + (high - low) // 2
        at[middle], at[low + 1] = at[low + 1], at[middle]
        for a, b in ((low + 1, high), (low, high), (low + 1, low)):
            if key[at[a]] > key[at[b]]:
                at[a], at[b] = at[b], at[a]
        i, j, pivot = low + 1, high, key[at[low]]
        while True:
            i += 1
            while key[at[i]] < pivot:
                i += 1
            j -= 1
            while key[at[j]] > pivot:
                j -= 1
            if j < i:
                break
            at[i], at[j] = at[j], at[i]
        at[low], at[j] = at[j], at[low]
        if j <= k:
            low = i
        if j >= k:
            high = j - 1


def introselect(key: _Row, at: _Row, nth: int) -> None:
    """Move positions so that the nth in order stands at place nth, smaller ones before it."""
    first, last = 0, len(at)
    depth = 2 * (last.bit_length() - 1)
    while last - first > 3:
        if not depth:
            _heap_select(key, at, first, nth + 1, last)
            at[first], at[nth] = at[nth], at[first]
            return
        depth -= 1
        cut = _partition(key, at, first, last)
        if cut <= nth:
            first = cut
        else:
            last = cut
    _insertion_sort(key, at, first, last)


def introsort(key: _Row, at: _Row, first: int, last: int) -> None:
    """Sort positions in [first, last)."""
    if last > first:
        _introsort(key, at, first, last, 2 * ((last - first).bit_length() - 1))
        _insertion_sort(key, at, first, last)


def top(key: _Row, at: _Row, k: int, ordered: bool) -> _Row:
    """Return the positions of the k smallest keys as `topk` does."""
    if not k:
        return []
    if k * 64 <= len(at):
        _heap_select(key, at, 0, k, len(at))
        _sort_heap(key, at, 0, k)
    else:
        introselect(key, at, k - 1)
        if ordered:
            introsort(key, at, 0, k - 1)
    return at[:k]


def _introsort(key: _Row, at: _Row, first: int, last: int, depth: int) -> None:
    while last - first > _SMALL:
        if not depth:
            _heap_select(key, at, first, last, last)
            _sort_heap(key, at, first, last)
            return
        depth -= 1
        cut = _partition(key, at, first, last)
        _introsort(key, at, cut, last, depth)
        last = cut


def _insertion_sort(key: _Row, at: _Row, first: int, last: int) -> None:
    for i in range(first + 1, last):
        moved = at[i]
        k = key[moved]
        j = i
        while j > first and k < key[at[j - 1]]:
            at[j] = at[j - 1]
            j -= 1
        at[j] = moved


def _partition(key: _Row, at: _Row, first: int, last: int) -> int:
    """Part [first, last) around the median of three, which is put first; return where the upper part begins."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    x, y, z = key[at[a]], key[at[b]], key[at[c]]
    if x < y:
        median = b if y < z else c if x < z else a
    else:
        median = a if x < z else c if y < z else b
    at[first], at[median] = at[median], at[first]
    pivot = key[at[first]]
    i, j = first + 1, last
    while True:
        while key[at[i]] < pivot:
            i += 1
        j -= 1
        while pivot < key[at[j]]:
            j -= 1
        if i >= j:
            return i
        at[i], at[j] = at[j], at[i]
        i += 1


def _sift(key: _Row, at: _Row, first: int, hole: int, n: int, moved: int) -> None:
    """Let `moved` sink from `hole` into a heap of n with its largest on top."""
    start = hole
    child = hole
    while child < (n - 1) // 2:
        child = 2 * (child + 1)
        if key[at[first + child]] < key[at[first + child - 1]]:
            child -= 1
        at[first + hole] = at[first + child]
        hole = child
    if n % 2 == 0 and child == (n - 2) // 2:
        child = 2 * (child + 1)
        at[first + hole] = at[first + child - 1]
        hole = child - 1
    parent = (hole - 1) // 2
    while hole > start and key[at[first + parent]] < key[moved]:
        at[first + hole] = at[first + parent]
        hole = parent
        parent = (hole - 1) // 2
    at[first + hole] = moved


def _heap_select(key: _Row, at: _Row, first: int, middle: int, last: int) -> None:
    """Gather the smallest of [first, last) in [first, middle) as a heap."""
    n = middle - first
    for parent in range((n - 2) // 2, -1, -1):
        _sift(key, at, first, parent, n, at[first + parent])
    for i in range(middle, last):
        if key[at[i]] < key[at[first]]:
            moved = at[i]
            at[i] = at[first]
            _sift(key, at, first, 0, n, moved)


def _sort_heap(key: _Row, at: _Row, first: int, last: int) -> None:
    while last - first > 1:
        last -= 1
        moved = at[last]
        at[last] = at[first]
        _sift(key, at, first, 0, last - first, moved)
