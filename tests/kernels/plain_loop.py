"""A plain loop around a formula of Scalars, compiled by LLVM at O3: enough to check and to time formulas."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from sapwood.kernels import scalar

NUMPY_TYPES = {
    "f32": np.float32, "f64": np.float64, "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "u8": np.uint8,
}  # fmt: skip
INTERLEAVE = 4
EXTRA = ""
DTYPES = {np.dtype(t): name for name, t in NUMPY_TYPES.items()}

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def text(body: Callable[..., Any], dtypes: tuple[str, ...], *, fast: bool = False) -> tuple[str, str]:
    """Return the LLVM text of `f(n, out, in0, in1 …)` and the dtype of the result."""
    root = body(*(scalar.var(f"%x{i}", d) for i, d in enumerate(dtypes)))
    lines, (result,) = scalar.lower([root], fast=fast)
    params = ["i64 %n", "ptr noalias %out", *(f"ptr noalias %p{i}" for i in range(len(dtypes)))]
    code = [
        f"define void @f({', '.join(params)}) {{",
        "br label %loop",
        "loop:",
        "%i = phi i64 [0, %0], [%next, %loop]",
    ]
    for i, d in enumerate(dtypes):
        kind = memory(d)
        code += [f"%q{i} = getelementptr {kind}, ptr %p{i}, i64 %i"]
        loaded = f"%x{i}" if d != "i1" else f"%b{i}"
        code += [f"{loaded} = load {kind}, ptr %q{i}"]
        if d == "i1":
            code += [f"%x{i} = trunc i8 %b{i} to i1"]
    code += lines
    kind = memory(root.dtype)
    if root.dtype == "i1":
        code += [f"%result = zext i1 {result} to i8"]
        result = "%result"
    code += [f"%q = getelementptr {kind}, ptr %out, i64 %i", f"store {kind} {result}, ptr %q"]
    code += [
        "%next = add i64 %i, 1",
        "%more = icmp slt i64 %next, %n",
        "br i1 %more, label %loop, label %end, !llvm.loop !0",
    ]
    code += ["end:", "ret void", "}", "!0 = distinct !{!0, !1}"]
    # The loops are chains of dependent operations: several side by side keep the machine's units busy.
    code += [f'!1 = !{{!"llvm.loop.interleave.count", i32 {INTERLEAVE}}}']
    return "\n".join(code), root.dtype


def memory(dtype: str) -> str:
    return "i8" if dtype == "i1" else scalar.LLVM_TYPES[dtype]


class Loop:
    """`body` over arrays of the given dtypes; `run(out, *arrays)` writes into out, a call returns a new array."""

    def __init__(self, body: Callable[..., Any], *dtypes: str, fast: bool = False) -> None:
        source, result = text(body, dtypes, fast=fast)
        machine = _machine()
        module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{source}')
        module.verify()
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
        builder.getModulePassManager().run(module, builder)
        self.assembly = machine.emit_assembly(module)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (1 + len(dtypes)))
        self.call = signature(self._engine.get_function_address("f"))
        self.dtypes = [NUMPY_TYPES[d] for d in dtypes]
        self.result = NUMPY_TYPES[result]

    def run(self, out: Any, *arrays: Any) -> None:
        self.call(out.size, out.ctypes.data, *(a.ctypes.data for a in arrays))

    def __call__(self, *operands: Any) -> Any:
        arrays = [np.ascontiguousarray(a) for a in np.broadcast_arrays(*operands)]
        arrays = [a if a.dtype == d else a.astype(d) for a, d in zip(arrays, self.dtypes)]
        out = np.empty(arrays[0].shape, self.result)
        if out.size:
            self.run(out, *arrays)
        return out


def _machine() -> Any:
    features = llvm.get_host_cpu_features().flatten() + EXTRA
    return llvm.Target.from_default_triple().create_target_machine(
        opt=3, cpu=llvm.get_host_cpu_name(), features=features
    )
