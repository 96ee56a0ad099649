"""The gradient of a convolution's bias in native code: sums over the batch and space, one channel at a time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from . import workspace
from .layout import DATA, fields
from .tiles import Kind
from .workspace import JOB, OPERANDS
from .writer import Function, Module

Plan = np.ndarray[Any, Any]
PLAN = fields("batch", "channels", "space", "cost")
SIDE = 4
"""Vectors added side by side."""


@lru_cache(maxsize=128)
def plan(batch: int, channels: int, space: int) -> Plan:
    """Return the plan of the sums of (batch, channels, space)."""
    return np.array([batch, channels, space, batch * channels * space // 8 + channels], np.int64)


def define(module: Module, kind: Kind) -> None:
    """Define `sums`, the C function of a builtin of (plan, g)."""
    with module.function("void", "sum_units", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
        _units(f, kind)
    with module.function("ptr", "sums", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _sums(f)


def _units(f: Function, kind: Kind) -> None:
    plan = f.field("ptr", "%job", JOB["plan"])
    batch, channels, space = (f.field("i64", plan, PLAN[n]) for n in ("batch", "channels", "space"))
    g, y = workspace.operand(f, "%job", 0), workspace.operand(f, "%job", 1)
    v, step = kind.vector, SIDE * kind.lanes
    whole = f.mul(f.udiv(space, step), step)
    with f.loop("%end", "%begin") as c:
        total = f.cell("double", "0.0")
        with f.loop(batch) as n:
            row = f.element(kind.name, g, f.mul(f.add(f.mul(n, channels), c), space))
            sums = [f.cell(v, "zeroinitializer") for _ in range(SIDE)]
            for cell in sums:
                cell.set("zeroinitializer")
            with f.loop(whole, 0, step) as i:
                for j, cell in enumerate(sums):
                    x = kind.load(f, f.element(kind.name, row, f.add(i, j * kind.lanes)))
                    cell.set(f.v(f"fadd {v} {cell.get()}, {x}"))
            pairs = [f.v(f"fadd {v} {sums[j].get()}, {sums[j + 1].get()}") for j in range(0, SIDE, 2)]
            joined = f.v(f"fadd {v} {pairs[0]}, {pairs[1]}")
            # Lanes may be added in any order, the same for all: it is fixed when this is compiled.
            part = f.cell(
                kind.name, f.v(f"call reassoc {kind.name} @llvm.vector.reduce.fadd.{kind.suffix}"
                               f"({kind.name} -0.0, {v} {joined})")
            )  # fmt: skip
            with f.loop(space, whole) as i:
                part.set(f.v(f"fadd {kind.name} {part.get()}, {f.load(kind.name, f.element(kind.name, row, i))}"))
            wide = part.get() if kind.name == "double" else f.v(f"fpext float {part.get()} to double")
            total.set(f.v(f"fadd double {total.get()}, {wide}"))
        result = total.get() if kind.name == "double" else f.v(f"fptrunc double {total.get()} to float")
        f.store(kind.name, result, f.element(kind.name, y, c))


def _sums(f: Function) -> None:
    table, plan = workspace.begin(f)
    channels = f.field("i64", plan, PLAN["channels"])
    out = workspace.new(f, table, "descr", "1", f.at(plan, PLAN["channels"]), "0")
    job = workspace.space(f)
    f.put("ptr", f.field("ptr", workspace.argument(f, 1), DATA), job, OPERANDS)
    f.put("ptr", f.field("ptr", out, DATA), job, OPERANDS + 8)
    threads = workspace.threads(f, table, channels)
    workspace.run(f, table, job, plan, channels, "@sum_units", f.field("i64", plan, PLAN["cost"]), threads, "null", "0")
    f.ret("ptr", out)


__all__ = ["define", "plan"]
