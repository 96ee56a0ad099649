"""`einsum`: sums of products written as an equation over named dimensions."""

from __future__ import annotations

import string
from math import prod
from typing import Any

from .. import ops
from ..errors import ArgumentError, ShapeError, ValueRangeError
from .declare import composite

LETTERS = string.ascii_uppercase + string.ascii_lowercase
Label = str | int
"""A dimension's name: a letter, or a number for one of those that an ellipsis stands for."""


@composite
def einsum(equation: Any, *operands: Any) -> Any:
    """Multiply tensors elementwise along named dimensions and sum over some of them.

    Args:
        equation: one letter per dimension of every operand, operands separated by commas, and optionally "->" with
            the letters of the output. Letters that are not in the output are summed over; one that is repeated within
            an operand takes its diagonal; "..." stands for all remaining dimensions, which broadcast. Without "->"
            the output holds the letters that occur once, in alphabetical order, after the dimensions of "...".
        operands: tensors. In the other form, einsum(x, [0, 1], y, [1, 2], [0, 2]), lists of numbers stand in for
            letters.

    Raises:
        ValueRangeError: the equation is malformed.
        ShapeError: the equation does not fit the operands.

    Example:
        >>> import sapwood
        >>> x = sapwood.tensor([[1., 2.], [3., 4.]])
        >>> sapwood.einsum("ij,jk->ik", x, x)
        tensor([[ 7., 10.],
                [15., 22.]])

    Reference: Einstein, Die Grundlage der allgemeinen Relativitätstheorie, 1916.
    """
    if not isinstance(equation, str):
        equation, operands = _from_lists((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if not operands:
        raise ArgumentError("einsum: at least one operand is needed")
    terms, output = _parsed(equation, operands)
    sizes = _sizes(terms, operands)
    summed = [label for label in dict.fromkeys(label for term in terms for label in term) if label not in output]
    order = [*output, *summed]
    laid = [_laid_out(x, term, order) for x, term in zip(operands, terms)]
    last = {label: max(i for i, term in enumerate(terms) if label in term) for label in summed}
    result = laid[0]
    ready = [d for d, label in enumerate(order) if last.get(label) == 0]
    if len(laid) == 1:
        return ops.sum(result, ready) if ready else result
    ready = [d for d in ready if result.shape[d] != 1]
    result = ops.sum(result, ready, keepdim=True) if ready else result
    for i, other in enumerate(laid[1:], 1):
        result = _contracted(result, other, [order.index(label) for label in summed if last[label] == i])
    return ops.reshape(result, tuple(sizes[label] for label in output)) if summed else result


# -- the equation -----------------------------------------------------------------------------------------------------


def _from_lists(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the equation and the operands of a call with lists of numbers."""
    if len(given) < 2:
        raise ArgumentError("einsum: give an equation and operands, or operands each followed by its list of numbers")
    pairs, rest = given[: len(given) // 2 * 2], given[len(given) // 2 * 2 :]
    equation = ",".join(map(_letters, pairs[1::2]))
    return equation + "".join("->" + _letters(out) for out in rest), pairs[::2]


def _letters(numbers: Any) -> str:
    text = ""
    for n in numbers:
        if n is not Ellipsis and not (isinstance(n, int) and 0 <= n < len(LETTERS)):
            raise ValueRangeError(f"einsum: a dimension's number must lie between 0 and {len(LETTERS) - 1}, got {n!r}")
        text += "..." if n is Ellipsis else LETTERS[n]
    return text


def _parsed(equation: str, operands: tuple[Any, ...]) -> tuple[list[list[Label]], list[Label]]:
    """Return the labels of every operand's dimensions and of the output's."""
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(operands):
        raise ValueRangeError(f"einsum: {equation!r} names {len(parts)} operands, and {len(operands)} came")
    terms = [_split(part, equation, f"operand {i}") for i, part in enumerate(parts)]
    unnamed = 0
    for i, (term, x) in enumerate(zip(terms, operands)):
        named, dims = len(term) - ("..." in term), len(x.shape)
        if named > dims or (named < dims and "..." not in term):
            raise ShapeError(
                f"einsum: {equation!r} names {named} dimensions of operand {i}, which has {dims}, {tuple(x.shape)}"
                + ("; use ... for those without a name" if named < dims else "")
            )
        unnamed = max(unnamed, dims - named if "..." in term else 0)
    full = [_spelled(term, len(x.shape) - len(term) + 1, unnamed) for term, x in zip(terms, operands)]
    if not arrow:
        letters = sorted(label for term in terms for label in term if label != "...")
        output: list[Label] = [*range(unnamed), *(c for c in letters if letters.count(c) == 1)]
        return full, output
    out = _split(right, equation, "the output")
    output = _spelled(out, unnamed, unnamed)
    for label in output:
        if output.count(label) > 1:
            raise ValueRangeError(f"einsum: {label!r} is repeated in the output of {equation!r}")
        if isinstance(label, str) and not any(label in term for term in full):
            raise ValueRangeError(f"einsum: {label!r} is in the output of {equation!r} and in none of the operands")
    return full, output


def _split(part: str, equation: str, where: str) -> list[str]:
    """Return the letters and the ellipsis of one term."""
    text = part.replace(" ", "")
    before, dots, after = text.partition("...")
    labels = [*before, *(["..."] if dots else []), *after]
    for label in labels:
        if label != "..." and label not in LETTERS:
            raise ValueRangeError(
                f"einsum: {label!r} in {where} of {equation!r} is not a letter"
                + (" nor part of the one ... that is allowed" if label == "." else "")
            )
    return labels


def _spelled(term: list[str], count: int, unnamed: int) -> list[Label]:
    """Return the term with its ellipsis as `count` numbers, counted from the right among all `unnamed`."""
    full: list[Label] = []
    for label in term:
        full += range(unnamed - count, unnamed) if label == "..." else [label]
    return full


def _sizes(terms: list[list[Label]], operands: tuple[Any, ...]) -> dict[Label, int]:
    """Return the size of each label; 1 broadcasts between operands, not within one."""
    sizes: dict[Label, int] = {}
    for i, (term, x) in enumerate(zip(terms, operands)):
        own: dict[Label, int] = {}
        for label, n in zip(term, x.shape):
            if own.setdefault(label, n) != n:
                raise ShapeError(
                    f"einsum: {label!r} is repeated in operand {i} {tuple(x.shape)} with sizes {own[label]} and {n}; a "
                    "diagonal needs equal sizes"
                )
        for label, n in own.items():
            known = sizes.get(label, 1)
            if 1 not in (known, n) and known != n:
                what = "a dimension of ..." if isinstance(label, int) else repr(label)
                raise ShapeError(
                    f"einsum: {what} has size {n} in operand {i} {tuple(x.shape)}, and {known} in one before; sizes "
                    "must be equal or 1"
                )
            sizes[label] = n if known == 1 else known
    return sizes


# -- the operands -----------------------------------------------------------------------------------------------------


def _laid_out(x: Any, term: list[Label], order: list[Label]) -> Any:
    """Return an operand with one dimension per label, in order; those it lacks have size 1."""
    labels: list[Label] = []
    for label in term:
        if label in labels:
            first = labels.index(label)
            x = ops.movedim(ops.diagonal(x, 0, first, len(labels)), -1, first)
        else:
            labels.append(label)
    for label in order:
        if label not in labels:
            labels.append(label)
            x = ops.unsqueeze(x, len(labels) - 1)
    return ops.permute(x, tuple(labels.index(label) for label in order))


def _contracted(a: Any, b: Any, dims: list[int]) -> Any:
    """Return the product of two operands of one layout, summed over `dims`, which stay with size 1."""
    both = [d for d in dims if a.shape[d] != 1 and b.shape[d] != 1]
    for_a = [d for d in dims if d not in both and a.shape[d] != 1]
    for_b = [d for d in dims if d not in both and b.shape[d] != 1]
    a = ops.sum(a, for_a, keepdim=True) if for_a else a
    b = ops.sum(b, for_b, keepdim=True) if for_b else b
    if not both:
        return ops.mul(a, b)
    rest = [d for d in range(len(a.shape)) if d not in both]
    batch = [d for d in rest if a.shape[d] != 1 and b.shape[d] != 1]
    mine = [d for d in rest if a.shape[d] != 1 and b.shape[d] == 1]
    yours = [d for d in rest if d not in batch and d not in mine]
    size = lambda x, some: prod(x.shape[d] for d in some)
    left = ops.reshape(ops.permute(a, (*batch, *mine, *both, *yours)), (size(a, batch), size(a, mine), size(a, both)))
    right = ops.reshape(ops.permute(b, (*batch, *both, *yours, *mine)), (size(a, batch), size(b, both), size(b, yours)))
    r = ops.bmm(left, right)
    placed = [*batch, *mine, *both, *yours]
    shape = [*(a.shape[d] for d in (*batch, *mine)), *(1 for _ in both), *(b.shape[d] for d in yours)]
    back = [placed.index(d) for d in range(len(placed))]
    return ops.permute(ops.reshape(r, tuple(shape)), tuple(back))
