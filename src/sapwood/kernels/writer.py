"""LLVM text with structure: functions, loops and branches are `with` blocks, so native code reads like Python.

    >>> from sapwood.kernels.writer import Module
    >>> module = Module()
    >>> with module.function("void", "fill", "i64 %n", "ptr %p", "double %x") as f:
    ...     with f.loop("%n") as i:
    ...         f.store("double", "%x", f.element("double", "%p", i))
    >>> text = module.text()

A value is the text LLVM knows it by: `%v3`, `%n`, `12`. Integers are i64 unless a type is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

Value = str
Operand = str | int


PART = "; part "
"""How the line before each part of a module's text begins."""
_SELDOM = '!{!"branch_weights", i32 1, i32 2000}'


class _Definition(NamedTuple):
    part: str
    internal: bool
    head: str
    body: str


class Module:
    """Functions that are compiled together, in up to three parts: see `engine.load`.

    Args:
        part: the one of functions that name none.
    """

    def __init__(self, part: str = "plain") -> None:
        self._part = part
        self._functions: list[_Definition] = []
        self._metadata: list[str] = []

    @contextmanager
    def function(
        self, returns: str, name: str, *params: str, internal: bool = False, apart: bool = False, part: str = ""
    ) -> Iterator[Function]:
        """Define a function; the block writes its body and must end in `ret`, or return void.

        Args:
            internal: only this module calls it.
            apart: only this module calls it, and it stays a function of its own.
            part: how it is compiled: "vector" has loops over vectors already, "control" no loop that matters, "plain"
                leaves that to `engine.load`; the module's own unless given.
        """
        f = Function(self)
        yield f
        if not f.ended:
            f.ret()
        head = f"{returns} @{name}({', '.join(params)})"
        body = "\n".join([f" #{int(apart)} {{\nentry:", *f.cells, *f.lines, "}"])
        self._functions.append(_Definition(part or self._part, internal or apart, head, body))

    def metadata(self, text: str) -> str:
        """Add a metadata node and return its name."""
        self._metadata.append(text)
        return f"!{len(self._metadata) - 1}"

    def set_metadata(self, name: str, text: str) -> None:
        """Replace a node's text, for nodes that mention themselves."""
        self._metadata[int(name[1:])] = text

    def text(self) -> str:
        """Return the module as LLVM reads it, each part behind a line that names it."""
        # Loops that look like memset or memcpy stay loops: a call costs more than the few elements of a row.
        words = 'nounwind "no-builtins" "frame-pointer"="none"'
        tail = [f"attributes #0 = {{ {words} }}", f"attributes #1 = {{ noinline {words} }}"]
        tail += [f"!{i} = {t}" for i, t in enumerate(self._metadata)]
        parts = list(dict.fromkeys(f.part for f in self._functions))
        texts = []
        for part in parts:
            lines = [PART + part]
            for f in self._functions:
                if f.part == part:
                    linkage = "internal " if f.internal and len(parts) == 1 else ""
                    lines.append(f"define {linkage}{f.head}{f.body}")
                else:
                    lines.append(f"declare {f.head}")
            texts += [*lines, *tail]
        return "\n".join([*texts, ""])


class Cell(NamedTuple):
    """A variable that can be set again; it becomes a register when LLVM has seen its uses."""

    function: Function
    kind: str
    name: str

    def get(self) -> Value:
        return self.function.v(f"load {self.kind}, ptr {self.name}")

    def set(self, value: Operand) -> None:
        self.function.do(f"store {self.kind} {value}, ptr {self.name}")


class Function:
    """The body of one function while it is written."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.cells: list[str] = []
        self.block = "entry"
        self.ended = False
        self._number = 0
        self._labels = 0

    # Single instructions.

    def do(self, text: str) -> None:
        """Write an instruction without a value."""
        self.lines.append("  " + text)

    def v(self, text: str) -> Value:
        """Write an instruction and return its value."""
        name = f"%v{self._number}"
        self._number += 1
        self.lines.append(f"  {name} = {text}")
        return name

    def add(self, a: Operand, b: Operand) -> Value:
        return self.v(f"add i64 {a}, {b}")

    def sub(self, a: Operand, b: Operand) -> Value:
        return self.v(f"sub i64 {a}, {b}")

    def mul(self, a: Operand, b: Operand) -> Value:
        return self.v(f"mul i64 {a}, {b}")

    def udiv(self, a: Operand, b: Operand) -> Value:
        return self.v(f"udiv i64 {a}, {b}")

    def urem(self, a: Operand, b: Operand) -> Value:
        return self.v(f"urem i64 {a}, {b}")

    def compare(self, how: str, a: Operand, b: Operand, kind: str = "i64") -> Value:
        """Compare integers or pointers: eq ne slt sle sgt sge ult …"""
        return self.v(f"icmp {how} {kind} {a}, {b}")

    def both(self, a: Value, b: Value) -> Value:
        return self.v(f"and i1 {a}, {b}")

    def either(self, a: Value, b: Value) -> Value:
        return self.v(f"or i1 {a}, {b}")

    def no(self, a: Value) -> Value:
        return self.v(f"xor i1 {a}, true")

    def choose(self, condition: Value, a: Operand, b: Operand, kind: str = "i64") -> Value:
        return self.v(f"select i1 {condition}, {kind} {a}, {kind} {b}")

    def least(self, a: Operand, b: Operand) -> Value:
        return self.choose(self.compare("slt", a, b), a, b)

    def greatest(self, a: Operand, b: Operand) -> Value:
        return self.choose(self.compare("sgt", a, b), a, b)

    def at(self, pointer: Value, offset: Operand) -> Value:
        """Return the address `offset` bytes behind `pointer`."""
        return self.v(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def element(self, kind: str, pointer: Value, index: Operand) -> Value:
        """Return the address of element `index` of an array of `kind`."""
        return self.v(f"getelementptr {kind}, ptr {pointer}, i64 {index}")

    def load(self, kind: str, pointer: Value, tail: str = "") -> Value:
        return self.v(f"load {kind}, ptr {pointer}{tail}")

    def store(self, kind: str, value: Operand, pointer: Value, tail: str = "") -> None:
        self.do(f"store {kind} {value}, ptr {pointer}{tail}")

    def field(self, kind: str, pointer: Value, offset: Operand) -> Value:
        """Load a `kind` from `offset` bytes behind `pointer`."""
        return self.load(kind, self.at(pointer, offset))

    def put(self, kind: str, value: Operand, pointer: Value, offset: Operand) -> None:
        """Store a `kind` at `offset` bytes behind `pointer`."""
        self.store(kind, value, self.at(pointer, offset))

    def call(self, returns: str, callee: Value, *arguments: str) -> Value:
        """Call a function (`@name` or the value of a pointer); arguments are typed: `i64 3`."""
        text = f"call {returns} {callee}({', '.join(arguments)})"
        if returns != "void":
            return self.v(text)
        self.do(text)
        return ""

    def cell(self, kind: str, initial: Operand | None = None) -> Cell:
        """Make a variable."""
        cell = Cell(self, kind, self.space(kind, 1))
        if initial is not None:
            cell.set(initial)
        return cell

    def space(self, kind: str, count: int, align: int | None = None) -> Value:
        """Make room for `count` elements on the stack."""
        name = f"%c{len(self.cells)}"
        self.cells.append(f"  {name} = alloca {kind}, i64 {count}" + (f", align {align}" if align else ""))
        return name

    # Blocks.

    def start(self, label: str) -> None:
        """Begin the block `label`; the one before must have branched."""
        self.lines.append(f"{label}:")
        self.block = label
        self.ended = False

    def go(self, label: str) -> None:
        """Branch to a block, unless the current one has already ended."""
        if not self.ended:
            self.do(f"br label %{label}")
        self.ended = True

    def split(self, condition: Value, yes: str, no: str) -> None:
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")
        self.ended = True

    def ret(self, kind: str = "", value: Operand = "") -> None:
        self.do(f"ret {kind} {value}" if kind else "ret void")
        self.ended = True

    def label(self, word: str) -> str:
        self._labels += 1
        return f"{word}{self._labels}"

    @contextmanager
    def when(self, condition: Value, *, seldom: bool = False) -> Iterator[None]:
        """Run the block if the condition holds."""
        yes, done = self.label("then"), self.label("after")
        weights = f", !prof {self.module.metadata(_SELDOM)}" if seldom else ""
        self.do(f"br i1 {condition}, label %{yes}, label %{done}{weights}")
        self.start(yes)
        yield
        self.go(done)
        self.start(done)

    @contextmanager
    def unless(self, condition: Value) -> Iterator[None]:
        """Run the block if the condition does not hold."""
        with self.when(self.no(condition)):
            yield

    @contextmanager
    def loop(self, stop: Operand, start: Operand = 0, step: Operand = 1, *, note: str = "") -> Iterator[Value]:
        """Count from `start` while below `stop`; `note` is the loop's metadata."""
        head, body, latch, done = (self.label(w) for w in ("head", "body", "latch", "done"))
        before, index, following = self.block, f"%{head}.i", f"%{head}.n"
        self.go(head)
        self.start(head)
        self.do(f"{index} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]")
        self.split(self.compare("slt", index, stop), body, done)
        self.start(body)
        yield index
        self.go(latch)
        self.start(latch)
        self.do(f"{following} = add nsw i64 {index}, {step}")
        self.do(f"br label %{head}" + (f", !llvm.loop {note}" if note else ""))
        self.start(done)

    def leave(self, condition: Value, label: str) -> None:
        """Go to `label` if the condition holds, else go on."""
        on = self.label("on")
        self.split(condition, label, on)
        self.start(on)

    def all_of(self, conditions: Sequence[Value]) -> Value:
        """Return whether every condition holds."""
        result = conditions[0]
        for c in conditions[1:]:
            result = self.both(result, c)
        return result


__all__ = ["PART", "Cell", "Function", "Module", "Operand", "Value"]
