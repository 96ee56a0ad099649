"""The exceptions Sapwood raises.

    SapwoodError
    ├── ShapeError    (RuntimeError, ValueError)   sizes do not fit each other
    ├── DtypeError    (NotImplementedError, TypeError)  an element type the op has no rule for
    ├── DimError      (IndexError)                 a dimension or index out of range
    ├── ArgumentError (TypeError)                  wrong kind or number of arguments
    ├── ValueRangeError (ValueError, RuntimeError) an attribute outside its domain
    ├── GradError     (RuntimeError)               the graph cannot do what was asked of it
    │   └── OverwrittenError                       a value saved for backward was written over
    ├── NonFiniteError (RuntimeError, FloatingPointError) a NaN or an infinity that nan_guard has stopped
    ├── CaptureError  (RuntimeError)               a program that cannot be captured as a static graph
    ├── ExportError   (RuntimeError)               a graph that has no counterpart in the target format
    ├── LoadError     (RuntimeError)               a file that is torn, foreign or not what it claims
    └── MissingError  (NotImplementedError)        a part of PyTorch that Sapwood does not have

Each is also a subclass of the built-in that PyTorch users catch. A text reads
*op: what was expected, what came, what to do.*
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "CaptureError",
    "DimError",
    "DtypeError",
    "ExportError",
    "GradError",
    "LoadError",
    "MissingError",
    "NonFiniteError",
    "OverwrittenError",
    "SapwoodError",
    "ShapeError",
    "ValueRangeError",
]


class SapwoodError(Exception):
    """Root of every exception that Sapwood raises itself."""


class ShapeError(SapwoodError, RuntimeError, ValueError):
    """Sizes do not fit each other."""


class DtypeError(SapwoodError, NotImplementedError, TypeError):
    """An element type for which the op has no rule."""


class DimError(SapwoodError, IndexError):
    """A dimension or an index is out of range."""


class ArgumentError(SapwoodError, TypeError):
    """An argument is of the wrong kind, missing or too many."""


class ValueRangeError(SapwoodError, ValueError, RuntimeError):
    """An attribute lies outside its domain."""


class GradError(SapwoodError, RuntimeError):
    """The graph cannot do what was asked of it."""


class OverwrittenError(GradError):
    """A value saved for backward was written over in place."""


class NonFiniteError(SapwoodError, RuntimeError, FloatingPointError):
    """A NaN or an infinity that `autograd.nan_guard` has stopped."""


class CaptureError(SapwoodError, RuntimeError):
    """A program that cannot be captured as a static graph."""


class ExportError(SapwoodError, RuntimeError):
    """A graph without a counterpart in the target format."""


class LoadError(SapwoodError, RuntimeError):
    """A file that is torn, foreign or not what it claims to be."""


class MissingError(SapwoodError, NotImplementedError):
    """A part of PyTorch that Sapwood does not have."""
