"""A longest common subsequence of two sequences, by whole numbers whose bits are a row of the table of lengths.

Reference: Hyyrö, Bit-Parallel LCS-length Computation Revisited, AWOCA 2004.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

__all__ = ["alignment"]

LARGEST = 2_000_000_000
"""Bits of the table, one per pair of elements: 250 MB. Beyond, common runs are looked for greedily."""


def alignment(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the positions (i, j), both increasing, at which a[i] faces an equal b[j]: as many as there can be."""
    first, last = 0, 0
    least = min(len(a), len(b))
    while first < least and a[first] == b[first]:
        first += 1
    while last < least - first and a[-1 - last] == b[-1 - last]:
        last += 1
    inner_a, inner_b = a[first : len(a) - last], b[first : len(b) - last]
    if len(inner_a) * len(inner_b) <= LARGEST:
        found = _longest(inner_a, inner_b)
    else:
        matcher = SequenceMatcher(None, inner_a, inner_b)
        found = [(i + k, j + k) for i, j, n in matcher.get_matching_blocks() for k in range(n)]
    return [
        *((i, i) for i in range(first)),
        *((i + first, j + first) for i, j in found),
        *((len(a) - k, len(b) - k) for k in range(last, 0, -1)),
    ]


def _longest(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the matches of a longest common subsequence."""
    places: dict[Hashable, int] = {}
    for j, x in enumerate(b):
        places[x] = places.get(x, 0) | 1 << j
    # A zero at bit j of row i: one more element of b[: j + 1] than of b[:j] can be matched with a[: i + 1].
    ones = (1 << len(b)) - 1
    row, rows = ones, []
    for x in a:
        matched = row & places.get(x, 0)
        row = ((row + matched) | (row - matched)) & ones
        rows.append(row)
    matches: list[tuple[int, int]] = []
    i, j = len(a) - 1, len(b) - 1
    while i >= 0 and j >= 0:
        if rows[i] >> j & 1:
            j -= 1
        elif i and not rows[i - 1] >> j & 1:
            i -= 1
        else:
            matches.append((i, j))
            i -= 1
            j -= 1
    return matches[::-1]
