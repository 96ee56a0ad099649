"""The op declaration: one class body says everything about an op, once.

    @op
    class mul(Binary):
        '''Multiply two tensors elementwise.'''
        forward = np.multiply
        vjp_input = lambda g, other: g * other
        vjp_other = lambda g, input: g * input

The class is never instantiated; `@op` checks it, puts it into `registry` and gives back the eager function, with the
class as its attribute `.op`. The parameters of `forward` are the public signature: those listed in `inputs` are
tensors, all others attributes.

A formula `vjp_<input>(g, …)` returns that input's cotangent. **Its parameter names are the save-list**: an input, an
attribute, `out` (or the name of one of several outputs), `<input>_shape`, `<input>_dtype`, `<input>_order`. Nothing
else is kept alive, and only while that input needs a gradient. Formulas are generic: written with operators, methods
shared by arrays and Tensors, and `ops.…` functions only, they run on arrays in an ordinary backward pass, on Tensors
under create_graph, and on symbols in capture and kernels. The engine undoes broadcasting and promotion afterwards.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any

from ..errors import MissingError

registry: dict[str, type[Op]] = {}
"""Every op by name."""

draws: dict[str, type[Op]] = {}
"""Every draw of random numbers by name: declared like ops, but no functions of their inputs."""

public: dict[str, Callable[..., Any]] = {}
"""Every public function by its name in the package: ops, and compositions of ops."""

methods: dict[str, Callable[..., Any]] = {}
"""Tensor methods that are Python functions over ops, by name."""


class Op:
    """What a declaration may say. Kinds below fix most of it; an op fills in the rest."""

    # -- what it computes
    forward: Any = None
    """NumPy in, NumPy out; its parameters are the op's signature."""
    formula: Any = None
    """The op as a composition of primitives; evaluated in place of a missing forward, fused by kernels."""
    infer: Any = None
    """Called with the arguments of a failed forward to raise the explanation; forward's own parameters."""
    canon: Any = None
    """Called as canon(input_array, *attributes) before forward; returns the attributes in canonical form."""
    signature: Any = None
    """A lambda with the public signature, where forward is a ufunc with attributes."""

    usual: dict[str, Any] = {}
    """Attribute values for which forward, which does not take them, is right; for others formula computes."""

    # -- what its operands are
    inputs: tuple[str, ...] = ()
    """Names of the tensor parameters; "*tensors" takes a sequence."""
    optional: tuple[str, ...] = ()
    """Those inputs that may be None."""
    outs: tuple[str, ...] = ()
    """Names of the outputs if there are several; they come back as one named tuple."""
    many: bool = False
    """Whether the op returns a plain tuple whose length depends on the arguments (split, unbind)."""
    promote: Any = None
    """"same": inputs convert to their common type. "float": to a floating-point one. "bool": same, giving bool.
    "given": used as they are, the first input's type must be one of the kinds in `dtypes`."""
    scalars: bool | str = False
    """Whether Python numbers may stand for inputs: True for those after the first, "any" for all but one of them,
    "all" for every one."""
    half: bool = True
    """Whether 16-bit floats compute in float32 and round once at the end."""
    no_bool: str = ""
    """What to use for bools, where the op refuses them, tensors and numbers alike."""
    casts: bool = False
    """Whether an attribute may make the output of a type that cannot carry a gradient, which then ends here."""
    view: bool = False
    """Whether the output shares the input's memory."""

    # -- what it is called
    grad_fn: str | None = None
    """The node's name, or a conditional expression over the attributes that gives it."""
    method: bool | str = True
    """Whether it is also a method of Tensor, or that method's signature where it differs, e.g. "(input, *size)"."""
    function: bool = True
    """Whether it is a public function of the package."""
    inplace: bool = False
    """Whether the in-place method `name_` exists."""
    aliases: tuple[str, ...] = ()
    """Further public names."""
    takes_out: bool = True
    """Whether `out=` is accepted."""
    numpy: tuple[Any, ...] = ()
    """NumPy functions that this op stands for when they are called on a Tensor."""

    # -- how it is differentiated
    vjp: Any = None
    """One formula for all inputs: vjp(g, needs, …) returns a gradient or None for each."""
    jvp: Any = None
    """Forward mode: jvp(tangents, …), or jvp_<input>(t, …) for the share of one input, with parameters named as those
    of a vjp; derived from the kind where it can be."""
    holomorphic: bool = True
    """Whether the formulas, written for real numbers, hold for complex ones by conjugating before and after. False for
    ops whose formulas take care of complex numbers themselves (conj, abs, view_as_real, decompositions)."""
    takes_none: bool = False
    """Whether vjp accepts None as the gradient of an unused output (else it gets zeros)."""
    needed_by: dict[str, tuple[str, ...]] = {}
    """With `vjp`: which inputs' gradients need a saved value; it is dropped when none of them is wanted."""

    # -- what others read
    kind: str = ""
    """"elementwise", "reduction", "view", "linear", "bilinear", "fused": how rules derive."""
    linear: bool = False
    kernel: str | None = None
    """Why kernels do not do the op's work, in words; None where they may."""
    native: Any = None
    """Makes what takes forward's place on large arrays, native(forward, least), where a formula does not say it."""
    native_vjp: Any = None
    """Makes what takes the place of vjp's kernel on large arrays, native_vjp(kernel, least)."""
    batch: Any = None
    onnx: Any = None
    jax: Any = None

    # -- what the laws read
    samples: Any = None
    """Called as samples(rng), yields argument tuples (arrays for tensors; a dict last for keywords)."""
    domain: tuple[float, float] | None = None
    """The open interval in which random samples lie, where not the whole line."""
    reference: Any = None
    """An independent NumPy or SciPy implementation."""
    smooth: bool = True
    """Whether difference quotients converge at random points."""
    dtypes: str = "f"
    """Kinds of element types it accepts among "b", "i", "f", "c"."""
    exempt: dict[str, str] = {}
    """Laws that do not apply to the op, each with the reason in words."""

    # -- filled in by @op
    name: str
    params: tuple[tuple[str, Any, bool], ...]
    """(name, default or REQUIRED, keyword-only) in order."""
    attrs: tuple[str, ...]
    vjps: tuple[Any, ...]
    wants: tuple[tuple[str, ...], ...]
    call: Any
    nodes: dict[str, Any]


REQUIRED = types.SimpleNamespace()
_SLOTS = {n for n in vars(Op) if not n.startswith("__")} | set(Op.__annotations__)
_DERIVED = ("_shape", "_dtype", "_order")


class Unary(Op):
    """One input, one output of its shape, element by element."""

    inputs = ("input",)
    kind = "elementwise"
    promote = "float"
    inplace = True


class Binary(Op):
    """Two inputs that broadcast, element by element."""

    inputs = ("input", "other")
    kind = "elementwise"
    promote = "same"
    scalars = True
    inplace = True


class Comparison(Op):
    """Two inputs that broadcast, a bool output; no gradient."""

    inputs = ("input", "other")
    kind = "elementwise"
    promote = "bool"
    scalars = True
    inplace = True
    dtypes = "bif"


class Reduction(Op):
    """One input; `dim` (an int, several, or None for all) goes away, or stays as size 1 with `keepdim`."""

    inputs = ("input",)
    kind = "reduction"


class View(Op):
    """The output is another look at the input's memory."""

    inputs = ("input",)
    kind = "view"
    view = True
    linear = True
    half = False
    takes_out = False
    dtypes = "bifc"


class Movement(Op):
    """The output holds the input's elements, moved or repeated."""

    inputs = ("input",)
    kind = "movement"
    linear = True
    half = False
    dtypes = "bifc"


class Fused(Op):
    """A composition of primitives that computes as one kernel where there is one."""

    inputs = ("input",)
    kind = "fused"
    promote = "float"


class Plain(Op):
    """None of the other kinds: everything is said in the declaration."""


def zero(g: Any) -> Any:
    """The formula of a derivative that is zero everywhere."""
    from .filling import zeros_of

    return zeros_of(g, g.shape)


def todo(g: Any, needs: Any = None) -> Any:
    """The formula of a derivative that exists and is not written."""
    raise MissingError("backward: this op's derivative is not implemented")


def op(cls: Any) -> Callable[..., Any]:
    """Check a declaration, register it, and return the eager function.

    Raises:
        TypeError: naming the op: an unknown slot, a formula parameter that cannot be saved, no docstring, a name
            taken already, no way to compute.
    """
    return _declare(cls, registry)


def draw(cls: Any) -> Any:
    """Check the declaration of a draw and put it into `draws`; return the class."""
    return _declare(cls, draws).op


def _declare(cls: Any, table: dict[str, type[Op]]) -> Any:
    from .call import eager

    name = cls.__name__.rstrip("_") if cls.__name__.endswith("_") and not cls.__name__.startswith("_") else cls.__name__
    cls.name = name
    if name in table:
        raise TypeError(f"op {name}: declared twice")
    if not cls.__doc__ or cls.__doc__ is cls.__mro__[1].__doc__:
        raise TypeError(f"op {name}: the docstring is missing")
    if cls.forward is None and cls.formula is None:
        raise TypeError(f"op {name}: neither forward nor formula says what it computes")
    cls.params = _params(cls)
    names = _names(cls)
    cls.attrs = tuple(n for n, _, _ in cls.params if n not in names)
    for slot, value in vars(cls).items():
        if slot.startswith("__") or slot in _SLOTS:
            continue
        if slot.startswith(("vjp_", "jvp_")) and slot[4:] in names:
            continue
        raise TypeError(f"op {name}: unknown slot {slot!r} = {value!r}")
    known = {*names, *cls.attrs, "out", *cls.outs, *(n + d for n in names for d in _DERIVED)}
    cls.vjps = tuple(getattr(cls, "vjp_" + n, None) for n in names)
    cls.wants = tuple(_wanted(cls, f, 1, known) for f in cls.vjps)
    if cls.vjp is not None:
        cls.wants = (_wanted(cls, cls.vjp, 2, known),)
    cls.nodes = {}
    table[name] = cls
    cls.call = function = eager(cls)
    if cls.function:
        public[name] = function
    for alias in cls.aliases:
        public[alias] = function
    return function


def composite(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    method: bool | str = False,
    function_name: bool = True,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Make a Python function over ops public; it is differentiable because its ops are.

    Args:
        name: its public name, where the Python name had to differ.
        method: whether it is a method of Tensor too, or the method's name (dunders, in-place names).
        function_name: whether it is a function of the package (False for what exists only as a method).
        aliases: further public names, also of the method.
    """

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        own = name or fn.__name__.rstrip("_")
        for n in (own, *aliases):
            if function_name:
                public[n] = fn
            if method:
                methods[method if isinstance(method, str) and n == own else n] = fn
        return fn

    return register if function is None else register(function)


def input_names(cls: Any) -> tuple[str, ...]:
    """Return the names of the tensor parameters, without the star of a sequence."""
    return _names(cls)


@cache
def differentiable(cls: Any) -> bool:
    """Return whether any gradient is defined."""
    return cls.vjp is not None or any(v is not None for v in cls.vjps)


@cache
def derived(cls: Any) -> bool:
    """Return whether every gradient that exists is written."""
    return differentiable(cls) and todo not in (cls.vjp, *cls.vjps)


@cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(n.lstrip("*") for n in cls.inputs)


def _params(cls: Any) -> tuple[tuple[str, Any, bool], ...]:
    source = cls.forward if isinstance(cls.forward, types.FunctionType) else cls.formula
    if cls.signature is not None:
        source = cls.signature
    if not isinstance(source, types.FunctionType):
        return tuple((n, REQUIRED, False) for n in _names(cls))
    code = source.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults = source.__defaults__ or ()
    first = len(positional) - len(defaults)
    params = [(n, defaults[i - first] if i >= first else REQUIRED, False) for i, n in enumerate(positional)]
    keyword = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    kwdefaults = source.__kwdefaults__ or {}
    params += [(n, kwdefaults.get(n, REQUIRED), True) for n in keyword]
    return tuple(params)


def _wanted(cls: Any, formula: Any, skip: int, known: set[str]) -> tuple[str, ...]:
    if formula is None or formula is zero or formula is todo:
        return ()
    code = formula.__code__
    names: tuple[str, ...] = code.co_varnames[skip : code.co_argcount]
    for n in names:
        if n not in known:
            raise TypeError(f"op {cls.name}: a formula asks for {n!r}; it may ask for {', '.join(sorted(known))}")
    return names
