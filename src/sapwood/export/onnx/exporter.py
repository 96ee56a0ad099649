"""A captured graph becomes an ONNX model: each call by its op's builder, or by the formula the op is declared with."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.errors import ArgumentError, ExportError
from sapwood.export.onnx.compositions import COMPOSITIONS
from sapwood.export.onnx.functions import DOMAIN, Folder
from sapwood.export.onnx.reasons import DRAWN, NOT_EXPORTED
from sapwood.export.onnx.sizes import Runs, Size, annotate, axes_of, of_run, varies
from sapwood.export.onnx.trial import tried
from sapwood.export.onnx.writer import CONSTANT, TYPES, Writer, package
from sapwood.files import atomic_file
from sapwood.graph.capture import capture
from sapwood.graph.ir import Call, Graph, Value

__all__ = ["BUILDERS", "TYPES", "Exporter", "builds", "export", "in_words"]

Builder = Callable[["Exporter", Call], Any]
BUILDERS: dict[str, Builder] = {}
"""What writes an op's call: called with the exporter and the call, it returns the names of the results."""

MOST = 2**31 - 2**20
"""Bytes that ONNX keeps in one file."""


def builds(*names: str) -> Callable[[Builder], Builder]:
    """Register a builder for ops."""

    def register(builder: Builder) -> Builder:
        for name in names:
            BUILDERS[name] = builder
        return builder

    return register


class Exporter(Writer):
    """A model in the making, call by call."""

    def __init__(self, opset: int) -> None:
        super().__init__(opset)
        self._lived: list[Graph] = []

    def operand(self, x: Any, dtype: Any = None) -> Any:
        """Return the name of a call's operand, as an element type if one is given; numbers become constants."""
        if x is None:
            return None
        if isinstance(x, Value):
            name = self.known.get(x.name)
            if name is None:
                raise ExportError(f"export: {x.name}, a result of {in_words(x.call)}, has no ONNX form")
            return name if dtype is None else self.cast(name, x.dtype, dtype)
        if isinstance(x, Size):
            return self.number(x, dtype or _type_of(int(x)))
        numpy = (dtype or _type_of(x)).numpy
        return self.constant(np.asarray(x).astype(numpy))

    def operands(self, call: Call, dtype: Any = None) -> list[Any]:
        """Return the names of all operands, as an element type if one is given."""
        return [self.operand(x, dtype) for x in call.inputs if not isinstance(x, tuple)]

    def attr(self, call: Call, name: str) -> Any:
        """Return an attribute; one that would change with the sizes that are dynamic is refused.

        Raises:
            ExportError: the attribute depends on a dynamic size.
        """
        if name in self.dynamic.get(id(call), {}) or varies(call.attrs[name]):
            raise ExportError(
                f"export: {in_words(call)}: its attribute {name!r} depends on a dynamic size; it can be exported with "
                "fixed sizes only"
            )
        return call.attrs[name]

    # The graph.

    def call(self, call: Call) -> None:
        """Write a call."""
        self.doc = f"{call.line} {call.line.text}" if call.line else ""
        self.here = in_words(call)
        first = len(self.nodes)
        builder = BUILDERS.get(call.op.name)
        if builder is not None:
            made = builder(self, call)
        elif call.op.name in COMPOSITIONS:
            made = self.composed(call)
        elif call.op.formula is not None:
            made = self.composed(call, call.op.formula)
        else:
            drawn = call.op.kind == "draw"
            reason = DRAWN if drawn else NOT_EXPORTED.get(call.op.name, "nothing says how")
            raise ExportError(f"export: {in_words(call)} has no ONNX form: {reason}")
        names = [made] if isinstance(made, str) else list(made)
        fresh = {n: node for node in self.nodes[first:] for n in node.output}
        for value, name in zip(call.results, names):
            if name is None:
                continue
            if name in fresh and name not in self.known.values():
                self._rename(first, name, value.name)
                self.known[value.name] = value.name
            else:
                self.known[value.name] = name

    def free(self, old: str, new: str) -> bool:
        """Tell whether a result may be called otherwise: a node makes it, and nothing has the new name."""
        made = {n for node in self.nodes for n in node.output}
        return old in made and new not in made and new not in self.initializers and new not in self.known.values()

    def rename(self, old: str, new: str) -> None:
        """Call a result otherwise, everywhere."""
        self._rename(0, old, new)
        self.known = {k: new if v == old else v for k, v in self.known.items()}

    def _rename(self, first: int, old: str, new: str) -> None:
        for node in self.nodes[first:]:
            for names in (node.input, node.output):
                for i, n in enumerate(names):
                    if n == old:
                        names[i] = new

    def composed(self, call: Call, function: Any = None) -> list[str]:
        """Write a call as the ops that a function consists of: its formula, or by default its composition here."""
        import sapwood

        function = function or COMPOSITIONS[call.op.name]
        examples = [
            sapwood.zeros(of_run(x.shape, 0), dtype=x.dtype) if isinstance(x, Value) else x for x in call.inputs
        ]  # fmt: skip
        tensors = [e for e in examples if isinstance(e, sapwood.Tensor)]
        names = [n.lstrip("*") for n in call.op.inputs]
        run = 0

        def program(*given: Any) -> Any:
            left = iter(given)
            filled = [next(left) if isinstance(e, sapwood.Tensor) else e for e in examples]
            values = dict(zip(names, filled)) | {k: of_run(v, run) for k, v in call.attrs.items()}
            if function is not call.op.formula:
                return function(**values)
            positional = [values[n] for n, _, keyword in call.op.params if not keyword and n in values]
            return function(*positional, **{n: values[n] for n, _, k in call.op.params if k and n in values})

        inner = capture(program, *tensors, name=call.op.name)
        others = []
        if self.runs is not None and varies([v.shape for v in call.values()] + list(call.attrs.values())):
            if id(call) in self.dynamic:
                self.attr(call, next(iter(self.dynamic[id(call)])))
            for run in range(1, 1 + len(self.runs.others)):
                given = [sapwood.zeros(of_run(v.shape, run), dtype=v.dtype) for v in call.values()]
                others.append(capture(program, *given, name=call.op.name))
            try:
                self.dynamic |= annotate(inner, others)
            except ExportError as problem:
                raise ExportError(
                    f"export: {in_words(call)} can be exported with fixed sizes only: {problem}"
                ) from None
            # Calls are known by identity, so they must stay.
            self._lived.append(inner)
        if any(c.op is call.op and c.attrs == call.attrs for c in inner.calls):
            raise ExportError(f"export: {in_words(call)} has no ONNX form: its formula is the op itself")
        outer = dict(self.known)
        given = [x for x in call.inputs if isinstance(x, Value)]
        for value, real in zip(inner.inputs, given):
            self.known[value.name] = outer[real.name]
        for i, value in enumerate(inner.constants):
            if others:
                self.take(value, [o.constants[i] for o in others])
            else:
                self.known[value.name] = self.constant(value.data.detach().numpy())
        prefix = self.name(call.op.name)
        for c in inner.calls:
            for r in c.results:
                r.name = f"{prefix}.{r.name}"
            c.line = call.line
            self.call(c)
        made = [self.known[v.name] for v in inner.outputs]
        self.known = outer
        return made


def _type_of(x: Any) -> Any:
    from sapwood import dtypes

    return dtypes.of_number(x)


def in_words(call: Call | None) -> str:
    """Return an op and where it was called."""
    if call is None:
        return "the input"
    where = f" at {call.line}" + (f" `{call.line.text}`" if call.line and call.line.text else "") if call.line else ""
    return f"{call.op.name}{where}"


def export(
    function: Any,
    args: Any = (),
    f: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int = 21,
    dynamic_axes: Mapping[str, Any] | None = None,
    functions: bool = False,
    **ignored: Any,
) -> Any:
    """Export a module or a function as an ONNX model.

    The function is run once on the example. Parameters become initialisers under their dotted names; every edge has its
    type and shape, every node the user's line and its module.

    Args:
        function: a module, a function of tensors, or a `sapwood.graph.Graph`.
        args: the example: a tensor, or a tuple of arguments.
        f: the file to write, whole or not at all; None only returns the model.
        kwargs: keyword arguments of the example.
        input_names, output_names: what the model's inputs and outputs are called.
        opset_version: of the standard operators.
        dynamic_axes: by input name, dimensions that may have any size: {"x": {0: "batch"}} or {"x": [0]}. The function
            is run on a second example with other sizes there, to see what depends on them.
        functions: write modules as functions of the model, nested as they are; calls that do the same share one.
        ignored: further arguments of PyTorch's function, which change nothing here.

    Returns:
        The onnx.ModelProto.

    Raises:
        ExportError: an op has no ONNX form, or depends on a dynamic size in a way that ONNX cannot follow.
        MissingError: the package onnx is not installed.

    Example:
        >>> import sapwood
        >>> from sapwood.export.onnx import export
        >>> model = export(sapwood.nn.Linear(3, 2), sapwood.ones(1, 3))
        >>> [n.op_type for n in model.graph.node]
        ['Gemm']
    """
    from sapwood.export.onnx import (  # noqa: F401 - they fill the table
        draws,
        elements,
        images,
        layers,
        maths,
        places,
        positions,
        ranks,
        reductions,
        shapes,
        special,
    )

    onnx = package()
    given = args if isinstance(args, tuple) else (args,)
    graph = function if isinstance(function, Graph) else capture(function, *given, **(kwargs or {}))
    for names, values, what in ((input_names, graph.inputs, "input"), (output_names, graph.outputs, "output")):
        if names is not None and len(names) != len(values):
            raise ArgumentError(f"export: {len(names)} {what}_names for {len(values)} {what}s")
    if len({id(v) for v in graph.outputs}) != len(graph.outputs):
        raise ExportError("export: one tensor is returned twice; ONNX names each output once")
    x = Exporter(opset_version)
    axes = axes_of(graph, input_names, dynamic_axes)
    if axes:
        x.runs = Runs(graph, function, given, dict(kwargs or {}), axes)
        x.dynamic = x.runs.changes
    for i, value in enumerate(graph.inputs):
        x.known[value.name] = input_names[i] if input_names else value.name
        x.inputs.append(x.known[value.name])
    uses = graph.uses()
    for i, value in enumerate(graph.constants):
        if uses[value.name] or value in graph.outputs:
            x.take(value, [o.constants[i] for o in x.runs.others] if x.runs else [])
    for value in (*graph.parameters, *graph.buffers):
        if uses[value.name] or value in graph.outputs:
            x.known[value.name] = value.name
            x.initializers[value.name] = value.data.detach().numpy()
    scopes: dict[int, Any] = {}
    for call in graph.calls:
        first = len(x.nodes)
        x.call(call)
        for node in x.nodes[first:]:
            scopes[id(node)] = call.scope
            for scope in call.scope[-1:]:
                entry = node.metadata_props.add()
                entry.key, entry.value = "module", str(scope)
    if any("random" in w for w in graph.warnings):
        raise ExportError(
            "export: random numbers were drawn, which would be the same in every run of the model; call model.eval() "
            "first, or hand them in as an input"
        )
    outputs = []
    for i, value in enumerate(graph.outputs):
        wanted = output_names[i] if output_names else value.name
        if value.name not in x.known:
            raise ExportError(f"export: the output {value.name} is a result of {in_words(value.call)} that ONNX lacks")
        here = x.known[value.name]
        if here != wanted and value.role == "result" and x.free(here, wanted):
            x.rename(here, wanted)
            here = wanted
        if here != wanted or value.role != "result":
            wanted = wanted if wanted != here else f"{wanted}_out"
            x.doc = ""
            x.nodes.append(onnx.helper.make_node("Identity", [here], [wanted]))
        outputs.append(_info(onnx, wanted, value, x.sizes(value)))
    inputs = [_info(onnx, x.known[v.name], v, x.sizes(v)) for v in graph.inputs]
    x.nodes = x.heads + x.nodes
    _drop_unused(x, [o.name for o in outputs])
    ends = {o.name for o in outputs}
    produced = {n for node in x.nodes for n in node.output} - ends
    infos = {v.name: _info(onnx, v.name, v, x.sizes(v)) for c in graph.calls for v in c.results if v.name in produced}
    opsets, extra = [onnx.helper.make_opsetid("", opset_version)], {}
    if functions:
        constants = {n: a for n, a in x.initializers.items() if n.startswith(CONSTANT)}
        typed = {x.known[v.name]: v for v in graph.values() if v.name in x.known and not v.dtype.is_complex}
        every = {n: _info(onnx, n, v, x.sizes(v)) for n, v in typed.items()}
        symbols = frozenset(word for named in axes.values() for word in named.values())
        folder = Folder(onnx, opset_version, scopes, constants, every, symbols)
        x.nodes = folder.fold(x.nodes, sorted(ends))
        if folder.functions:
            opsets.append(onnx.helper.make_opsetid(DOMAIN, 1))
            extra["functions"] = folder.functions
        _drop_unused(x, list(ends))
        shown = {n for node in x.nodes for n in node.output}
        infos = {n: i for n, i in infos.items() if n in shown}
    weights = [_tensor(onnx, name, a) for name, a in x.initializers.items()]
    made = onnx.helper.make_graph(x.nodes, graph.name, inputs, outputs, weights, value_info=list(infos.values()))
    model = onnx.helper.make_model(made, opset_imports=opsets, producer_name="sapwood", **extra)
    model.ir_version = min(model.ir_version, 10)
    if x.runs is not None:
        tried(onnx, model, x.runs)
    if f is not None:
        _write(onnx, model, Path(f))
    return model


def _tensor(onnx: Any, name: str, array: Any) -> Any:
    return onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)


def _info(onnx: Any, name: str, value: Value, sizes: Any) -> Any:
    if value.dtype.is_complex:
        raise ExportError(
            f"export: {value.name} is {value.dtype.name}; ONNX's operators do not compute with complex numbers"
        )
    return onnx.helper.make_tensor_value_info(name, TYPES[value.dtype.name], sizes or list(value.shape))


def _drop_unused(x: Exporter, outputs: list[str]) -> None:
    """Remove nodes whose results nothing reads, and constants that are left over."""
    wanted = set(outputs)
    kept = []
    for node in reversed(x.nodes):
        if any(n in wanted for n in node.output):
            kept.append(node)
            wanted.update(node.input)
    x.nodes = kept[::-1]
    x.initializers = {n: a for n, a in x.initializers.items() if n in wanted}


def _write(onnx: Any, model: Any, path: Path) -> None:
    """Write a model, whole or not at all; weights beyond ONNX's 2 GB go into a file beside it."""
    if model.ByteSize() < MOST:
        with atomic_file(path) as file:
            file.write(model.SerializeToString())
        return
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        beside = f"{path.name}.data"
        onnx.save(model, os.path.join(folder, path.name), save_as_external_data=True, location=beside)
        # The weights first: a model without them could not be read.
        for name in (beside, path.name):
            os.replace(os.path.join(folder, name), path.parent / name)
