"""The slow path: every call that is not the common case, in one readable place.

In order: operands of foreign kinds (symbols, batched and dual tensors) take the call over; a call on bare arrays
answers in arrays; arguments are checked; types are promoted as PyTorch does; forward runs, and is explained if it
fails; outputs are wrapped, recorded, and copied into `out=` where that was given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import asarray, ndarray

from .. import alias, dtypes
from ..dtypes import dtype as Dtype
from ..errors import ArgumentError, DimError, DtypeError, GradError, SapwoodError, ShapeError
from ..state import GRAD, INFERENCE, OBSERVE, get_mode
from ..tensor import InferenceTensor, Tensor, wrap
from . import serving
from .declare import Op, input_names
from .out import into
from .record import record
from .returns import return_type

NUMBERS = (bool, int, float, complex)


def slow(op: type[Op], inputs: tuple[Any, ...], attrs: tuple[Any, ...], out: Any = None, operator: bool = False) -> Any:
    """Call `op` on `inputs` and `attrs`, both in the order of the declaration."""
    flat = list(_flatten(op, inputs))
    owner = owner_of(flat)
    if owner is not None:
        if out is not None:
            raise GradError(f"{op.name}: out= cannot hold what a transform computes; use the returned value")
        return owner.__sapwood_op__(op, inputs, attrs)
    tensors = any(isinstance(x, Tensor) for x in flat)
    if not tensors and (out is None) and any(isinstance(x, ndarray | np.generic) for x in flat):
        return on_arrays(op, inputs, attrs)
    inputs = checked_inputs(op, inputs, operator)
    if inputs is NotImplemented:
        return NotImplemented
    arrays, _ = to_arrays(op, inputs)
    attrs = canonical(op, arrays, attrs)
    watched = get_mode() & OBSERVE
    if watched:
        from ..autograd.observe import observe

        name = op.name if out is None else op.name + ".out"
        result = observe(op, name, inputs, attrs, lambda: evaluate(op, arrays, attrs, inputs))
    else:
        result = evaluate(op, arrays, attrs, inputs)
    if out is not None:
        written = into(op, flat, result, out)
        if watched:
            tell(op, inputs, (written,) if isinstance(written, Tensor) else tuple(written))
        return written
    return finish(op, inputs, arrays, attrs, result)


def again(op: type[Op], inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """Call `op` with attributes that are canonical already, as a recorded call has them."""
    inputs = checked_inputs(op, inputs, False)
    arrays, _ = to_arrays(op, inputs)
    if get_mode() & OBSERVE:
        from ..autograd.observe import observe

        result = observe(op, op.name, inputs, attrs, lambda: evaluate(op, arrays, attrs, inputs))
    else:
        result = evaluate(op, arrays, attrs, inputs)
    return finish(op, inputs, arrays, attrs, result)


def watched(*operands: Any) -> bool:
    """Return whether calls are observed, so that what happens besides ops has to be told, and no transform runs."""
    return bool(get_mode() & OBSERVE) and owner_of(operands) is None


def owner_of(values: Any) -> Any:
    """Return the class that takes a call over: that of the foreign operand of the highest level, None without one."""
    owner, highest = None, -1
    for x in values:
        kind = type(x)
        if hasattr(kind, "__sapwood_op__") and (level := getattr(x, "__sapwood_level__", 0)) > highest:
            owner, highest = kind, level
    return owner


def _flatten(op: type[Op], inputs: tuple[Any, ...]) -> Any:
    for name, x in zip(op.inputs, inputs):
        if name.startswith("*") and isinstance(x, list | tuple):
            yield from x
        else:
            yield x


def canonical(op: type[Op], arrays: tuple[Any, ...], attrs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the attributes as the op's `canon` makes them."""
    if op.canon is None or not op.attrs:
        return attrs
    found: tuple[Any, ...] = op.canon(*arrays[:1], *attrs)
    return found


def on_arrays(op: type[Op], inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """Evaluate an op on bare arrays, as formulas do in an ordinary backward pass."""
    attrs = canonical(op, inputs, attrs)
    if op.promote == "float":
        inputs = tuple(x if np.asarray(x).dtype.kind in "fcV" else asarray(x, dtypes.F32) for x in inputs)
    return evaluate(op, inputs, attrs, inputs)


# -- arguments --------------------------------------------------------------------------------------------------------


def checked_inputs(op: type[Op], inputs: tuple[Any, ...], operator: bool) -> Any:
    """Return the inputs as Tensors, numbers and Nones, after checking that each may be what it is."""
    checked: list[Any] = []
    for i, (name, x) in enumerate(zip(op.inputs, inputs)):
        if name.startswith("*"):
            checked.append(_sequence(op, name[1:], x))
        elif isinstance(x, Tensor):
            checked.append(x)
        elif isinstance(x, ndarray) and operator:
            checked.append(wrap(x))
        elif isinstance(x, np.generic) and (op.scalars or operator):
            checked.append(x.item())
        elif (isinstance(x, NUMBERS) and op.scalars and (i or op.scalars is not True)) or (
            x is None and _may_be_none(op, name)
        ):
            checked.append(x)
        elif operator:
            return NotImplemented
        else:
            extra = "; use from_numpy() or as_tensor() first" if isinstance(x, ndarray) else ""
            allowed = "a tensor or a number" if op.scalars and i else "a tensor"
            raise ArgumentError(f"{op.name}: {name} must be {allowed}, got {type(x).__name__}{extra}")
    if op.scalars in ("any", "all") and all(isinstance(x, NUMBERS) for x in checked):
        if op.scalars == "any":
            raise ArgumentError(f"{op.name}: one of {' and '.join(op.inputs)} must be a tensor, got numbers alone")
        checked = [wrap(asarray(x, dtypes.of_number(x).numpy)) for x in checked]
    return tuple(checked)


def _may_be_none(op: type[Op], name: str) -> bool:
    return name in op.optional or any(n == name and d is None for n, d, _ in op.params)


def _sequence(op: type[Op], name: str, x: Any) -> tuple[Any, ...]:
    if isinstance(x, Tensor) or not hasattr(x, "__iter__"):
        raise ArgumentError(f"{op.name}: {name} must be a sequence of tensors, got {type(x).__name__}")
    members = tuple(x)
    for i, m in enumerate(members):
        if not isinstance(m, Tensor):
            raise ArgumentError(f"{op.name}: {name}[{i}] must be a tensor, got {type(m).__name__}")
    return members


def to_arrays(op: type[Op], inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], Dtype | None]:
    """Return the operands as arrays of the type they are computed in, Python numbers left as they are."""
    if op.no_bool:
        _refuse_bool(op, inputs)
    common = common_dtype(op, inputs)
    arrays = tuple(tuple(_array(m, common) for m in x) if isinstance(x, tuple) else _array(x, common) for x in inputs)
    return arrays, common


def _array(x: Any, common: Dtype | None) -> Any:
    if isinstance(x, Tensor):
        a = x._array
        return a if common is None or a.dtype is common.numpy else a.astype(common.numpy)
    if common is not None and isinstance(x, NUMBERS):
        return _number(x, common)
    return x


def _number(x: Any, common: Dtype) -> Any:
    """Return a Python number of the common type's category; integers wrap around as a conversion does."""
    if common.category == dtypes.INT and not isinstance(x, bool):
        info = np.iinfo(common.numpy)
        if not info.min <= x <= info.max:
            return np.asarray(x % (1 << 64), np.uint64).astype(common.numpy)[()]
        return common.numpy.type(x)
    return x


def common_dtype(op: type[Op], inputs: tuple[Any, ...]) -> Dtype | None:
    """Return the type the op computes in, None if it does not promote."""
    if op.promote is None:
        return None
    if op.promote == "given":
        _refuse_kind(op, inputs[0])
        return None
    dims: list[Dtype] = []
    zeros: list[Dtype] = []
    numbers: list[Any] = []
    for x in inputs:
        for m in x if isinstance(x, tuple) else (x,):
            if isinstance(m, Tensor):
                (dims if m._array.ndim else zeros).append(m.dtype)
            elif isinstance(m, NUMBERS):
                numbers.append(m)
    if not (dims or zeros or numbers):
        return None
    common = dtypes.result_dtype(dims, zeros, numbers)
    if op.promote == "float" and common.category < dtypes.FLOAT:
        return dtypes.get_default_dtype()
    return common


def _refuse_bool(op: type[Op], inputs: tuple[Any, ...]) -> None:
    for name, x in zip(op.inputs, inputs):
        if isinstance(x, bool) or (isinstance(x, Tensor) and x.dtype.category == dtypes.BOOL):
            raise DtypeError(f"{op.name}: {name} is bool, expected numbers; convert it first, or use {op.no_bool}")


def _refuse_kind(op: type[Op], x: Any) -> None:
    if isinstance(x, Tensor) and "bifc"[x.dtype.category] not in op.dtypes:
        names = {"b": "bool", "i": "integers", "f": "floating-point types", "c": "complex types"}
        raise DtypeError(
            f"{op.name}: {input_names(op)[0]} must be of {' or '.join(names[k] for k in op.dtypes)}, got "
            f"{x.dtype.name}; convert it first, e.g. with tensor.float()"
        )


# -- evaluation -------------------------------------------------------------------------------------------------------


def evaluate(op: type[Op], arrays: tuple[Any, ...], attrs: tuple[Any, ...], given: tuple[Any, ...]) -> Any:
    """Run forward, in float32 for 16-bit floats, and explain a failure."""
    narrow = _narrow(arrays) if op.half else None
    if narrow is not None:
        arrays = tuple(tuple(map(_widen, x)) if isinstance(x, tuple) else _widen(x) for x in arrays)
    usual = all(dict(zip(op.attrs, attrs))[n] == v for n, v in op.usual.items())
    forward = serving.forward_of(op) if usual else op.formula
    arguments = _in_order(op, arrays, attrs, usual)
    try:
        try:
            result = forward(*arguments[0], **arguments[1])
        except RuntimeWarning:
            with np.errstate(all="ignore"):
                result = forward(*arguments[0], **arguments[1])
    except SapwoodError:
        raise
    except Exception as problem:
        explain(op, arrays, attrs, arguments, problem)
    if narrow is None:
        return result
    if isinstance(result, tuple):
        return tuple(_narrowed(r, narrow) for r in result)
    return _narrowed(result, narrow)


def _in_order(
    op: type[Op], arrays: tuple[Any, ...], attrs: tuple[Any, ...], usual: bool
) -> tuple[list[Any], dict[str, Any]]:
    values = dict(zip(input_names(op), arrays)) | dict(zip(op.attrs, attrs))
    if usual and isinstance(op.forward, np.ufunc):
        return [values[n] for n in input_names(op)], {}
    # A forward that is right for the usual values does not take those attributes.
    taken = [(n, keyword_only) for n, _, keyword_only in op.params if not (usual and n in op.usual)]
    positional = [values[n] for n, keyword_only in taken if not keyword_only]
    return positional, {n: values[n] for n, keyword_only in taken if keyword_only}


def _narrow(arrays: tuple[Any, ...]) -> Any:
    """Return the 16-bit float type among the operands, if there is one."""
    for x in arrays:
        for m in x if isinstance(x, tuple) else (x,):
            if isinstance(m, ndarray | np.generic) and m.dtype.itemsize == 2 and m.dtype.kind in "fV":
                return m.dtype
    return None


def _widen(x: Any) -> Any:
    if isinstance(x, ndarray | np.generic) and x.dtype.itemsize == 2 and x.dtype.kind in "fV":
        return x.astype(np.float32)
    return x


def _narrowed(x: Any, narrow: Any) -> Any:
    return x.astype(narrow) if isinstance(x, ndarray | np.generic) and x.dtype == np.float32 else x


def explain(op: type[Op], arrays: Any, attrs: Any, arguments: Any, problem: Exception) -> None:
    """Raise the error of a failed forward: the op's own explanation, or NumPy's with the operands named."""
    if op.infer is not None:
        op.infer(*arguments[0], **arguments[1])
    described = ", ".join(f"{n} is {_described(a)}" for n, a in zip(input_names(op), arrays) if a is not None)
    if op.kind == "elementwise" and len(arrays) > 1:
        _explain_broadcast(op, arrays, described)
    text = f"{op.name}: {problem}; {described}"
    if isinstance(problem, np.exceptions.AxisError | IndexError):
        raise DimError(text) from problem
    if isinstance(problem, TypeError):
        raise DtypeError(text) from problem
    if isinstance(problem, MemoryError | NotImplementedError | ArithmeticError):
        raise problem
    raise ShapeError(text) from problem


def _described(a: Any) -> str:
    if isinstance(a, tuple):
        return "[" + ", ".join(map(_described, a)) + "]"
    return f"{a.dtype} {a.shape}" if isinstance(a, ndarray) else repr(a)


def _explain_broadcast(op: type[Op], arrays: tuple[Any, ...], described: str) -> None:
    shapes = [np.shape(a) for a in arrays if a is not None]
    for back in range(1, max(map(len, shapes), default=0) + 1):
        sizes = {s[-back] for s in shapes if len(s) >= back} - {1}
        if len(sizes) > 1:
            raise ShapeError(
                f"{op.name}: sizes do not broadcast at dimension -{back} ({' and '.join(map(str, sorted(sizes)))}); "
                f"{described}. Sizes must be equal or 1"
            )


# -- results ----------------------------------------------------------------------------------------------------------


def finish(op: type[Op], inputs: Any, arrays: Any, attrs: Any, result: Any) -> Any:
    """Wrap what forward returned, record the call, register views."""
    mode = get_mode()
    several = bool(op.outs or op.many)
    results = tuple(asarray(r) for r in result) if several else (asarray(result),)
    node = record(op, inputs, arrays, attrs, results) if mode & GRAD else None
    made = InferenceTensor if mode & INFERENCE else Tensor
    if op.view and (mode & INFERENCE or type(inputs[0]) is InferenceTensor):
        # A view is an inference tensor exactly if its base is one.
        shared = alias.owner(results[0]) is alias.owner(inputs[0]._array) if results else False
        made = type(inputs[0]) if shared and type(inputs[0]) is InferenceTensor else Tensor if shared else made
    tensors = []
    for i, a in enumerate(results):
        t: Tensor = object.__new__(made)
        t._array = a
        t._node = None if node is None else node[i]
        tensors.append(t)
    if op.view:
        _register(op, inputs, tensors, mode, several)
    if mode & OBSERVE:
        tell(op, inputs, tensors)
    if not several:
        return tensors[0]
    return tuple(tensors) if op.many else return_type(op)(tensors)


def tell(op: type[Op], inputs: Any, tensors: Any) -> None:
    """Tell whoever observes calls."""
    from ..autograd.observe import called

    called(op, inputs, tensors)


def _register(op: type[Op], inputs: Any, tensors: list[Tensor], mode: int, several: bool) -> None:
    base = inputs[0]
    kind = "inference" if mode & INFERENCE else "no_grad" if not mode & GRAD else "multiple" if several else ""
    for t in tensors if base._inference is False else ():
        if several or alias.owner(t._array) is alias.owner(base._array) or not t._array.size:
            alias.register_view(t, base, kind)
