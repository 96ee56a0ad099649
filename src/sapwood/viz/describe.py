"""Tensors in a few words: shape, dtype, value and gradient as short text."""

from __future__ import annotations

from typing import Any

__all__ = [
    "SMALL",
    "carried_text",
    "dtype_text",
    "element_count",
    "gradient_of",
    "shape_text",
    "single_text",
    "value_text",
]

# Tensors of at most this many elements are shown with their value.
SMALL = 4
# Of larger ones only this many elements are written.
FIRST = 3


def shape_text(tensor: Any) -> str:
    shape = getattr(tensor, "shape", None)
    return "" if shape is None else str(tuple(int(size) for size in shape))


def dtype_text(tensor: Any) -> str:
    return str(getattr(tensor, "dtype", "")).rpartition(".")[2]


def carried_text(shape: str, dtype: str) -> str:
    """Return what a link says of the tensor along it: its shape, and its dtype where it is not the usual one."""
    return shape if not shape or dtype in ("", "float32") else f"{shape} {dtype}"


def element_count(tensor: Any) -> int:
    count = 1
    for size in tensor.shape:
        count *= int(size)
    return count


def value_text(tensor: Any, limit: int = SMALL) -> str:
    """Return the elements of a small tensor, or the first few of a larger one followed by an ellipsis."""
    if element_count(tensor) <= limit:
        return nested_text(tensor.detach().tolist())
    first = tensor.detach().reshape(-1)[:FIRST].tolist()
    return nested_text(first)[:-1] + ", …]"


def nested_text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(nested_text(v) for v in value) + "]"
    if isinstance(value, float):
        text = f"{value:.4g}"
        return text + "." if text.lstrip("-").isdigit() else text
    return str(value)


def single_text(tensor: Any) -> str:
    """Return the value of a small tensor; of a single element without brackets."""
    return value_text(tensor).strip("[]") if element_count(tensor) == 1 else value_text(tensor)


def gradient_of(tensor: Any) -> Any:
    """Return a tensor's gradient where it keeps one; asking any other tensor would be worth a warning."""
    return tensor.grad if tensor.is_leaf or getattr(tensor, "retains_grad", False) else None
