"""Print arrays in PyTorch's form, to the character.

    tensor([[ 1.0000, -2.5000],
            [    nan,  0.0000]], dtype=torch.float64, grad_fn=<MulBackward0>)

Three decisions make the form, in this order:

1. *What is shown.* An array of more than `threshold` elements keeps `edgeitems` at both ends of every long dimension.
   The corners are sliced out first, so the cost does not depend on the size of the array.
2. *How a number looks.* One notation for the whole array, decided from its finite nonzero elements that are shown:
   integers with a bare point, fixed point, or scientific. Their widest text is the column width; zeros, infinities and
   NaNs are padded to it but never widen it. A complex array decides for its real and imaginary parts apart.
3. *Where lines break.* As many columns per line as `linewidth` allows, and a suffix that would pass it starts a line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import compress, islice
from typing import Any, NamedTuple

import numpy as np

from sapwood.errors import ArgumentError, ValueRangeError

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_text"]

Array = np.ndarray[Any, Any]


class _Options(NamedTuple):
    """Hold what `set_printoptions` sets; PyTorch documents the names and defaults."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: float = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}
_options = _PROFILES["default"]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: float | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed from now on, in every thread.

    `precision` counts digits after the point (4), `threshold` elements beyond which a tensor is summarised (1000),
    `edgeitems` elements kept at both ends of a summarised dimension (3), `linewidth` characters per line (80).
    `profile` sets all four: "default", "short" (precision 2, edgeitems 2) or "full" (never summarise); what is given
    beside it wins. `sci_mode` forces scientific notation on or off; every call that leaves it out returns to the
    automatic choice, as in PyTorch.

    Raises:
        ValueRangeError: a profile that does not exist, a negative or fractional count. Options stay as they were.
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ValueRangeError(
            f"set_printoptions: expected profile to be one of {', '.join(_PROFILES)}, came {profile!r}; name one."
        )
    counts = {"precision": precision, "edgeitems": edgeitems}
    for name, count in counts.items():
        if count is not None and (not hasattr(count, "__index__") or count < 0):
            raise ValueRangeError(
                f"set_printoptions: expected {name} to be a whole number of at least 0, came {count!r}; "
                "pass such a number, or None to keep the present one."
            )
    given = {**counts, "threshold": threshold, "linewidth": linewidth}
    changes = {name: value for name, value in given.items() if value is not None}
    base = _options if profile is None else _PROFILES[profile]
    _options = base._replace(sci_mode=sci_mode, **changes)  # type: ignore[arg-type]


def get_printoptions() -> dict[str, Any]:
    """Return the present options as a dictionary that `set_printoptions` accepts."""
    return _options._asdict()


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Print with other options inside a `with` block; takes what `set_printoptions` takes.

    Example:
        >>> import numpy as np
        >>> from sapwood.printing import printoptions, tensor_text
        >>> with printoptions(precision=2):
        ...     tensor_text(np.float32([0.125]), dtype_name="float32", default_dtypes=("float32",))
        'tensor([0.12])'
    """
    global _options
    before = _options
    set_printoptions(**options)
    try:
        yield
    finally:
        _options = before


def tensor_text(
    array: Array,
    *,
    dtype_name: str,
    default_dtypes: tuple[str, ...],
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    extra: tuple[str, ...] = (),
    prefix: str = "tensor(",
) -> str:
    """Return the printed form of a tensor that holds `array`.

    `dtype_name` is the name without "torch."; it is shown unless it is one of `default_dtypes`, whose first entry is
    the default float (an empty tensor shows every dtype but that one). `grad_fn_name` takes the place of
    `requires_grad`. `extra` are further suffixes, put last. Lines are indented to the end of the last line of `prefix`.

    Raises:
        ArgumentError: an array of objects, strings or dates.

    Example:
        >>> import numpy as np
        >>> from sapwood.printing import tensor_text
        >>> tensor_text(np.float64([1, 2]), dtype_name="float64", default_dtypes=("float32", "int64"), prefix="T(")
        'T([1., 2.], dtype=torch.float64)'
    """
    options = _options
    indent = len(prefix) - (prefix.rfind("\n") + 1)
    summarise = array.size > options.threshold
    suffixes = []
    if array.size == 0:
        body = "[]"
        if array.ndim != 1:
            suffixes.append(f"size={array.shape}")
        show_dtype = dtype_name != default_dtypes[0]
    else:
        body = _body(array, options, indent, summarise)
        if options.edgeitems == 0:  # also where nothing is left out, as in PyTorch
            suffixes.append(f"size={array.shape}")
        show_dtype = dtype_name not in default_dtypes
    if show_dtype:
        suffixes.append(f"dtype=torch.{dtype_name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return _append(prefix + body, (*suffixes, *extra), indent, options.linewidth) + ")"


def _append(text: str, suffixes: tuple[str, ...], indent: int, linewidth: float) -> str:
    """Put suffixes after the text, each on a line of its own where the present line has no room."""
    # PyTorch counts two characters more than the first line has, and none for the parenthesis at the end.
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text


def _body(array: Array, options: _Options, indent: int, summarise: bool) -> str:
    """Return the nested brackets of an array that is not empty."""
    shape, edge = array.shape, options.edgeitems
    if summarise and not edge and shape:
        return "[...]"
    cut = tuple(summarise and size > 2 * edge for size in shape)
    if any(cut):
        kept = [
            [*range(edge), *range(size - edge, size)] if is_cut else range(size) for size, is_cut in zip(shape, cut)
        ]
        array = array[np.ix_(*kept)]
    cells, width = _cells(array, options)
    if not shape:
        return cells[0]
    room = options.linewidth - (indent + len(shape) - 1)
    columns = max(1, int(min(room / (width + 2), len(cells) + 1)))  # the bound keeps an infinite linewidth an integer
    return _brackets(iter(cells), array.shape, cut, edge, indent, columns)


def _brackets(
    cells: Iterator[str], shape: tuple[int, ...], cut: tuple[bool, ...], edge: int, indent: int, columns: int
) -> str:
    """Take the cells of one (sub)array from the iterator and bracket them, row by row."""
    indent += 1
    if len(shape) == 1:
        row = list(islice(cells, shape[0]))
        if cut[0]:
            row.insert(edge, " ...")
        separator = ",\n" + " " * indent
        items = [", ".join(row[start : start + columns]) for start in range(0, len(row), columns)]
    else:
        separator = "," + "\n" * (len(shape) - 1) + " " * indent
        items = [_brackets(cells, shape[1:], cut[1:], edge, indent, columns) for _ in range(shape[0])]
        if cut[0]:
            items.insert(edge, "...")
    return "[" + separator.join(items) + "]"


def _cells(array: Array, options: _Options) -> tuple[list[str], int]:
    """Return the text of each element, padded, and the width that line breaking counts with."""
    kind = array.dtype.kind
    if kind in "biu":
        return _pad([str(value) for value in array.ravel().tolist()])
    if kind in "OSUMmT":
        raise ArgumentError(
            f"tensor_text: expected an array of numbers, came dtype {array.dtype}; convert it to a number dtype first."
        )
    if kind == "c":
        reals, real_width = _float_cells(array.real, options)
        imags, imag_width = _float_cells(array.imag, options)
        cells = [_join_complex(real, imag.lstrip()) for real, imag in zip(reals, imags)]
        return cells, real_width + imag_width + 1  # one short of what is printed, as PyTorch counts
    return _float_cells(array, options)


def _join_complex(real: str, imag: str) -> str:
    sign = "" if imag[0] == "-" else "+"
    return f"{real}{sign}{imag}j"


def _pad(texts: list[str], width: int = 1) -> tuple[list[str], int]:
    width = max(width, *map(len, texts))
    return [text.rjust(width) for text in texts], width


def _float_cells(array: Array, options: _Options) -> tuple[list[str], int]:
    """Format real numbers of any float type; their value in double precision decides, as in PyTorch."""
    with np.errstate(all="ignore"):  # a signalling NaN complains when it is converted
        numbers = array.astype(np.float64).ravel()
        wide = np.isfinite(numbers) & (numbers != 0)
        significant = np.abs(numbers[wide])
        whole = bool(np.all(significant == np.ceil(significant)))
    values = numbers.tolist()
    if not significant.size:
        scientific = False  # even where sci_mode asks for it, as in PyTorch
    elif options.sci_mode is None:
        scientific = _spread(float(significant.min()), float(significant.max()))
    else:
        scientific = options.sci_mode
    if whole and not scientific:
        texts = [f"{value:.0f}." if math.isfinite(value) else str(value) for value in values]
    else:
        form = f"%.{options.precision}{'e' if scientific else 'f'}"
        texts = [form % value for value in values]
    width = max(map(len, compress(texts, wide.tolist())), default=1)
    return [text.rjust(width) for text in texts], width


def _spread(smallest: float, largest: float) -> bool:
    """Tell whether magnitudes lie too far apart, or too far from one, for fixed point."""
    return largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
