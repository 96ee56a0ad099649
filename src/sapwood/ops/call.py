"""The flat wrappers: the eager function of an op, printed from its declaration.

A wrapper has no loops, tables or dictionaries at call time: it tests the types of its arguments and the mode word,
calls `forward`, and stores a Tensor and, if a gradient is wanted, a node. Whatever is not this common case is handed to
`slow.slow`. The text is printed and compiled at the first call, so that declaring an op costs next to nothing.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import asarray, ndarray

from .. import alias, cuts, origin
from ..dtypes import F32, F64
from ..node import LEAF
from ..state import GRAD, PACK, get_mode, next_seq
from ..tensor import Parameter, Tensor
from . import serving, source
from . import slow as slow_path
from .declare import REQUIRED, Op, differentiable, input_names, todo
from .nodes import keeps, node_class, node_expression, node_names, users
from .record import observed

_COMMON = {
    "Tensor": Tensor,
    "Parameter": Parameter,
    "ndarray": ndarray,
    "asarray": asarray,
    "new": object.__new__,
    "get_mode": get_mode,
    "next_seq": next_seq,
    "LEAF": LEAF,
    "PACKING": GRAD | PACK,
    "observed": observed,
    "F32": F32,
    "F64": F64,
    "slow": slow_path.slow,
    "stamp": alias.stamp,
    "captured": alias.captured.get,
    "RuntimeWarning": RuntimeWarning,
    "register_view": alias.register_view,
    "float": float,
    "int": int,
    "type": type,
    "Exception": Exception,
    "getframe": sys._getframe,
    "user_files": origin.user_files,
    "of_frame": origin.of_frame,
    "unrecorded": cuts.unrecorded,
}

printed: list[tuple[Any, type[Op], str | None]] = []
"""Every eager function whose body exists, with its op and kind: what changes when origin tracking is switched."""
printers: list[Callable[[Any, type[Op], str | None], None]] = []
"""Called with each eager function when its body was printed."""


def eager(op: type[Op]) -> Callable[..., Any]:
    """Return the op's eager function; its body is compiled when it is first called."""
    return _stub(op, op.name)


def _stub(op: type[Op], name: str, method: str | None = None) -> Any:
    namespace = {"__name__": "sapwood.ops", "_op": op, "_finish": _finish, "_method": method}
    function: Any = types.FunctionType(_FIRST_CALL, namespace, name)
    namespace["_self"] = function
    function.__qualname__ = name
    function.__module__ = "sapwood"
    function.__doc__ = op.__doc__
    function.op = op
    return function


def method_of(op: type[Op], name: str) -> Any:
    """Return the Tensor method of an op: the eager function itself unless its signature differs."""
    if isinstance(op.method, str):
        return _stub(op, name, op.method)
    return op.call


def inplace_of(op: type[Op], name: str) -> Any:
    """Return the in-place method `name`, which writes the op's result over its first input."""
    return _stub(op, name, "inplace")


def operator_of(op: type[Op], name: str, reflected: bool = False) -> Any:
    """Return a dunder method that answers NotImplemented for operands the op does not know."""
    return _stub(op, name, "inplace operator" if name.startswith("__i") else "reflected" if reflected else "operator")


def _first_call(*args: Any, **kwargs: Any) -> Any:
    _finish(_self, _op, _method)  # type: ignore[name-defined] # noqa: F821 - globals of each stub
    return _self(*args, **kwargs)  # type: ignore[name-defined] # noqa: F821


_FIRST_CALL = _first_call.__code__


def _finish(function: Any, op: type[Op], method: str | None) -> None:
    """Print, compile and install the body of an eager function."""
    namespace = function.__globals__
    namespace.update(_COMMON)
    namespace.update({n: node_class(op, n) for n in node_names(op)})
    serving.place(op, namespace)
    namespace["canon"] = op.canon
    namespace["op"] = op
    namespace["name"] = function.__name__
    if method is not None and method.startswith("inplace"):
        from .inplace import in_place

        namespace["in_place"] = in_place
    namespace |= {f"default_{n}": d for n, d, _ in op.params if d is not REQUIRED}
    namespace["_codes"] = {}
    _install(function, op, method, origin.Tracking.on)
    printed.append((function, op, method))
    for printer in printers:
        printer(function, op, method)


def _install(function: Any, op: type[Op], method: str | None, cuts: bool) -> None:
    """Give an eager function its body, the one that notes what no_grad leaves out or the one that does not."""
    namespace = function.__globals__
    codes = namespace["_codes"]
    if cuts not in codes:
        text = wrapper_text(op, function.__name__, method, cuts=cuts)
        body = source.run(text, f"op {op.name}", namespace)["wrapper"]
        codes[cuts] = body.__code__.replace(co_name=function.__name__)
        function.__defaults__ = body.__defaults__
        function.__kwdefaults__ = body.__kwdefaults__
    function.__code__ = codes[cuts]


def _switched(cuts: bool) -> None:
    for function, op, method in printed:
        _install(function, op, method, cuts)


origin.Tracking.listeners.append(_switched)


def wrapper_text(op: type[Op], name: str, method: str | None = None, *, cuts: bool = False) -> str:
    """Return the source of an op's eager function; with `cuts` it notes what no_grad keeps out of the graph."""
    flat = not (op.outs or op.many or any(n.startswith("*") for n in op.inputs) or todo in (op.vjp, *op.vjps))
    head = _signature(op, method)
    text = [f"def wrapper({head}):"]
    if method is None:
        for theirs, own in _numpy_names(op):
            text += [f"    if {theirs} is not None:", f"        {own} = {theirs}"]
    text += _unpack_method(op, method)
    names = input_names(op)
    if method is not None and method.startswith("inplace"):
        rest = "".join(f"{n}, " for n in names[1:])
        attrs = "".join(f"{a}, " for a in op.attrs)
        operator = ", True" if method.endswith("operator") else ""
        text += _flat_inplace(op, method.endswith("operator"))
        return "\n".join([*text, f"    return in_place(op, {names[0]}, ({rest}), ({attrs}), name{operator})", ""])
    given = ", ".join(names) + ","
    attrs = "".join(f"{a}, " for a in op.attrs)
    extra = ", out" if _takes_out(op, method) else ""
    if method in ("operator", "reflected"):
        extra = ", operator=True"
    fall = f"return slow(op, ({given}), ({attrs}){extra})"
    if not flat:
        return "\n".join([*text, f"    {fall}", ""])
    return "\n".join([*text, *_flat_body(op, fall, method, cuts), ""])


def _flat_inplace(op: type[Op], operator: bool) -> list[str]:
    """Return the lines that write a ufunc's result straight into memory that no graph and no view has a part in."""
    names = input_names(op)
    if not isinstance(op.forward, np.ufunc) or op.promote == "bool" or not 1 <= len(names) <= 2:
        return []
    first, other = names[0], names[1] if len(names) == 2 else None
    usual = "" if operator else "".join(f" and {n} == {v!r}" for n, v in op.usual.items())
    lines = [f"    ty_ = type({first})", f"    if (ty_ is Tensor or ty_ is Parameter){usual}:"]
    lines += [f"        {first}_d = {first}._array", "        mode_ = get_mode()", f"        dt_ = {first}_d.dtype"]
    test = f"mode_ <= 1 and (dt_ is F32 or dt_ is F64) and {first}_d.base is None"
    test += f" and (mode_ == 0 or {first}._node is None) and not captured()"
    given = f"{first}_d"
    if other is not None:
        lines += [f"        {other}_d = {other}", f"        ty_ = type({other})"]
        lines += ["        if ty_ is Tensor or ty_ is Parameter:", f"            {other}_d = {other}._array"]
        lines += [f"            ok_ = {other}_d.dtype is dt_ and (mode_ == 0 or {other}._node is None)"]
        # A view of the target would be read after it was written over.
        lines[-1] += f" and {other}_d.base is not {first}_d"
        lines += ["        else:", "            ok_ = ty_ is float or ty_ is int"]
        test = f"ok_ and {test}"
        given += f", {other}_d"
    lines += [f"        if {test}:", "            try:", f"                forward({given}, {first}_d)"]
    # The result is in place when NumPy's floating-point warning comes as an error; other errors come before a write.
    lines += ["            except RuntimeWarning:", "                pass", "            except Exception:"]
    rest = "".join(f"{n}, " for n in names[1:])
    attrs = "".join(f"{a}, " for a in op.attrs)
    lines += [f"                return in_place(op, {first}, ({rest}), ({attrs}), name{', True' if operator else ''})"]
    return [*lines, f"            stamp({first}, name)", f"            return {first}"]


def _takes_out(op: type[Op], method: str | None) -> bool:
    return op.takes_out and method is None


def _signature(op: type[Op], method: str | None) -> str:
    if method in ("operator", "inplace operator"):
        return ", ".join(input_names(op))
    if method == "reflected":
        return "other, input"
    if method not in (None, "inplace"):
        # *size takes the sizes one by one or as one sequence, and can be given by its name too.
        return re.sub(r"\*(\w+)", r"*\1_, \1=None", method[1:-1])
    parts, star, renamed = [], False, False
    for n, default, keyword_only in op.params:
        if keyword_only and not star:
            parts.append("*")
            star = True
        # axis= may stand for a required dim: dim and what follows it get a default; canon and the checks refuse None.
        renamed = renamed or (method is None and n == "dim" and op.canon is not None)
        required = f"{n}=None" if renamed else n
        parts.append(required if default is REQUIRED else f"{n}=default_{n}")
    if _takes_out(op, method):
        if not star:
            parts.append("*")
        parts.append("out=None")
    if method is None:
        if not star and not _takes_out(op, method) and _numpy_names(op):
            parts.append("*")
        parts += [f"{theirs}=None" for theirs, _ in _numpy_names(op)]
    return ", ".join(parts)


def _numpy_names(op: type[Op]) -> list[tuple[str, str]]:
    """Return NumPy's names of attributes, which PyTorch takes too, with the op's own."""
    named = {n for n, d, _ in op.params if n in op.attrs and (d is not REQUIRED or op.canon is not None)}
    return [(theirs, n) for theirs, n in (("axis", "dim"), ("keepdims", "keepdim")) if n in named]


def _unpack_method(op: type[Op], method: str | None) -> list[str]:
    """Return the lines that turn a method's own parameters into the op's."""
    if method in (None, "inplace"):
        return []
    if not method.startswith("("):
        given = input_names(op)
    else:
        star = re.search(r"\*(\w+)", method)
        given = tuple(re.findall(r"\w+(?=\s*[,=)])", method + ")"))
        lines = []
        if star:
            n = star[1]
            lines = [
                f"    if {n} is None:",
                f"        {n} = {n}_[0] if len({n}_) == 1 and type({n}_[0]) is not int else {n}_",
            ]
            given += (n,)
        rest = [f"    {n} = default_{n}" for n, d, _ in op.params if n not in given and d is not REQUIRED]
        return lines + rest
    return [f"    {n} = default_{n}" for n, d, _ in op.params if n not in given and d is not REQUIRED]


def _flat_body(op: type[Op], fall: str, method: str | None, cuts: bool) -> list[str]:
    names = input_names(op)
    optional = {n for n, d, _ in op.params if n in names and d is None} | set(op.optional)
    can = {n for n, v in zip(names, op.vjps) if v is not None} if op.vjp is None else set(names)
    record = differentiable(op)
    first = names[0] if names else None
    out = []
    if _takes_out(op, method):
        out += ["    if out is not None:", f"        {fall}"]
    arrays = _array_lines(op, names, optional) if method is None else []
    if op.usual and method is None:
        out += [f"    if {' or '.join(f'{n} != {v!r}' for n, v in op.usual.items())}:", f"        {fall}"]
    for n in names:
        out += [f"    ty_ = type({n})"]
        if n in optional:
            out += [f"    if {n} is None:", f"        {n}_d = None", f"        {n}_n = None"]
            out += ["    elif ty_ is Tensor or ty_ is Parameter:"]
        else:
            out += ["    if ty_ is Tensor or ty_ is Parameter:"]
        out += [f"        {n}_d = {n}._array"]
        checked = {"same", "bool", "float"}
        if n == first and (op.promote in ("float", "given") or op.kind == "reduction" or _rounds_between(op)):
            out += [
                f"        dt_ = {n}_d.dtype",
                "        if dt_ is not F32 and dt_ is not F64:",
                f"            {fall}",
            ]
        elif n != first and op.promote in checked:
            out += [f"        if {n}_d.dtype is not {first}_d.dtype:", f"            {fall}"]
        if record and n in can:
            out += [f"        {n}_n = {n}._node"]
        if op.scalars and n != first:
            out += ["    elif ty_ is float or ty_ is int:", f"        dt_ = {first}_d.dtype"]
            out += ["        if dt_ is not F32 and dt_ is not F64:", f"            {fall}", f"        {n}_d = {n}"]
            if record and n in can:
                out += [f"        {n}_n = None"]
        out += ["    else:", *(arrays if n == first else []), f"        {fall}"]
    # Saved-tensor hooks change only what a recorded node keeps, so that they do not leave the flat path.
    out += ["    mode_ = get_mode()", "    if mode_ > 1 and mode_ != PACKING:", f"        {fall}"]
    if op.canon is not None and op.attrs:
        comma = "," if len(op.attrs) == 1 else ""
        out += [f"    {', '.join(op.attrs)}{comma} = canon({_canon(op, '_d')})"]
    out += ["    try:", f"        a_ = forward({_passed(op, '_d')})", "    except Exception:", f"        {fall}"]
    out += ["    if type(a_) is not ndarray:", "        a_ = asarray(a_)"]
    out += ["    t_ = new(Tensor)", "    t_._array = a_"]
    if record:
        out += _record_lines(op, [n for n in names if n in can])
    out += ["    t_._node = None"]
    if names and (cuts or op.casts):
        out += _cut_lines(names, [n for n in names if n in can] if record else None)
    if op.view:
        out += [f"    register_view(t_, {first}, '' if mode_ else 'no_grad')"]
    out += ["    return t_"]
    return out


def _array_lines(op: type[Op], names: tuple[str, ...], optional: set[str]) -> list[str]:
    """Return the lines that serve formulas, which call ops on bare arrays: straight to forward."""
    if op.promote == "bool" or names[0] in optional:
        return []
    test = " and ".join(f"type({n}) is ndarray" for n in names if n not in optional)
    if op.promote in ("float", "given"):
        test += f" and ({names[0]}.dtype is F32 or {names[0]}.dtype is F64)"
    test += "".join(f" and {n} == {v!r}" for n, v in op.usual.items())
    lines = [f"        if {test}:"]
    if op.canon is not None and op.attrs:
        lines += [f"            {', '.join(op.attrs)}{',' if len(op.attrs) == 1 else ''} = canon({_canon(op, '')})"]
    return [*lines, f"            return forward({_passed(op)})"]


def _passed(op: type[Op], suffix: str = "") -> str:
    """Return the argument list of forward; `suffix` is what the variables of inputs end with."""
    names = input_names(op)
    values = ((n, n + suffix if n in names else n, keyword) for n, _, keyword in op.params if n not in op.usual)
    return ", ".join(f"{n}={v}" if keyword else v for n, v, keyword in values)


def _rounds_between(op: type[Op]) -> bool:
    """Return whether forward takes several steps, which 16-bit floats must not round in between."""
    return op.half and op.kind == "elementwise" and op.promote == "same" and isinstance(op.forward, types.FunctionType)


def _canon(op: type[Op], suffix: str) -> str:
    return ", ".join([n + suffix for n in input_names(op)[:1]] + list(op.attrs))


def _cut_lines(names: tuple[str, ...], can: list[str] | None) -> list[str]:
    """Return the lines that note a call which wanted to be recorded and was not."""
    wanted = " or ".join(f"{n}_n is not None" for n in can) if can else f"{names[0]}._node is not None"
    return [f"    if {wanted}:", f"        unrecorded(op, mode_, ({''.join(n + ', ' for n in names)}), t_)"]


_ORIGIN_LINES = [
    "            f_ = getframe(1)",
    "            c_ = f_.f_code",
    "            node_.origin = (c_, f_.f_lasti) if c_.co_filename in user_files else of_frame(f_)",
]


def _record_lines(op: type[Op], can: list[str]) -> list[str]:
    names = input_names(op)
    live = "mode_ and a_.dtype.kind not in 'biu'" if op.casts else "mode_"
    out = [f"    if {live}:", f"        if {' or '.join(f'{n}_n is not None' for n in can)}:"]
    out += [line for n in can for line in (f"            if {n}_n is LEAF:", f"                {n}_n = {n}")]
    out += [f"            node_ = ({node_expression(op)})()"]
    edges = "".join(f"{n}_n, " if n in can else "None, " for n in names)
    out += [f"            node_.edges = ({edges})"]
    saved = "".join(f"{_kept(op, w, can)}, " for w in keeps(op))
    out += [
        f"            node_.saved = ({saved})",
        "            node_.shape = a_.shape",
        "            node_.dtype = a_.dtype",
    ]
    out += _ORIGIN_LINES
    out += ["            node_.extra = None", "            node_.seq = next_seq()", "            t_._node = node_"]
    out += ["            if mode_ > 1:", "                observed(node_, mode_)"]
    if op.view:
        out += [f"            register_view(t_, {names[0]})"]
    return [*out, "            return t_"]


def _value(op: type[Op], wanted: str) -> str:
    """Return the expression of a saved value inside the flat wrapper."""
    names = input_names(op)
    if wanted == "out":
        return "a_"
    if wanted in names:
        return wanted + "_d"
    for n in names:
        if wanted == n + "_shape":
            return f"{n}_d.shape"
        if wanted == n + "_dtype":
            return f"{n}_d.dtype"
        if wanted == n + "_order":
            return f"'F' if {n}_d.flags.f_contiguous and not {n}_d.flags.c_contiguous else 'C'"
    return wanted


def _kept(op: type[Op], name: str, can: list[str]) -> str:
    """Return the expression of what a node keeps under `name`: None where nothing that is wanted needs it."""
    needed = users(op, name)
    value = _value(op, name)
    if needed is None or set(needed) >= set(can):
        return value
    return f"{value} if {' or '.join(f'{u}_n is not None' for u in needed)} else None"


__all__ = ["eager", "inplace_of", "method_of", "operator_of", "wrapper_text"]
