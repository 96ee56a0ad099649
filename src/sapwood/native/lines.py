"""The user's line in a node, natively: the nearest frame outwards that is not the package's own.

Which code objects are the user's is remembered in a direct map by address; an entry keeps its code object alive, so
that the address means the same for as long as the entry stands.
"""

from __future__ import annotations

from ..kernels.writer import Function, Module
from .objects import at, drop, give, hold, item, same

CODES = 512
"""Entries of the map."""
ENTRY = 16
"""Bytes of an entry: the code object, and 1 for the user's."""
GLOBALS = f"@codes = internal global [{CODES * ENTRY // 8} x i64] zeroinitializer\n"
DEEPEST = 32
"""Frames looked at; code further out is not searched."""


def define(module: Module) -> None:
    """Define `note_line(world, node)`."""
    with module.function("i1", "judge", "ptr %world", "ptr %code", "ptr %row", apart=True) as f:
        _judge(f)
    with module.function("i1", "users", "ptr %world", "ptr %code", internal=True) as f:
        address = f.v("ptrtoint ptr %code to i64")
        mixed = f.v(f"xor i64 {f.v(f'lshr i64 {address}, 4')}, {f.v(f'lshr i64 {address}, 13')}")
        row = f.at("@codes", f.mul(f.v(f"and i64 {mixed}, {CODES - 1}"), ENTRY))
        with f.when(same(f, f.load("ptr", row), "%code")):
            f.ret("i1", f.compare("ne", f.field("i64", row, 8), 0))
        f.ret("i1", f.call("i1", "@judge", "ptr %world", "ptr %code", f"ptr {row}"))
    with module.function("void", "note_line", "ptr %world", "ptr %node", apart=True) as f:
        _note(f)


def _judge(f: Function) -> None:
    """Find out whose code it is by the name of its file, and remember that.

    No Python code runs here, in which an interrupt could be raised: the one error left is that memory has run out.
    """
    file = f.call("ptr", at(f, "getattr"), "ptr %code", f"ptr {at(f, 'word_filename')}")
    with f.when(same(f, file, "null"), seldom=True):
        f.call("void", at(f, "clear"))
        f.ret("i1", "false")
    arguments = f.space("ptr", 2)
    f.store("ptr", file, arguments)
    f.store("ptr", at(f, "own"), f.element("ptr", arguments, 1))
    answer = f.call("ptr", at(f, "vectorcall"), f"ptr {at(f, 'startswith')}", f"ptr {arguments}", "i64 2", "ptr null")
    drop(f, file)
    with f.when(same(f, answer, "null"), seldom=True):
        f.call("void", at(f, "clear"))
        f.ret("i1", "false")
    yes = f.no(same(f, answer, at(f, "true")))
    drop(f, answer)
    old = f.load("ptr", "%row")
    f.store("ptr", hold(f, "%code"), "%row")
    f.put("i64", f.choose(yes, 1, 0), "%row", 8)
    with f.unless(same(f, old, "null")):
        drop(f, old)
    f.ret("i1", yes)


def _note(f: Function) -> None:
    """Walk outwards from the running frame; keep (code, offset) of the first that is the user's."""
    frame = f.cell("ptr", f.call("ptr", at(f, "frame")))
    with f.when(same(f, frame.get(), "null")):
        f.ret()
    hold(f, frame.get())
    with f.loop(DEEPEST):
        code = f.call("ptr", at(f, "frame_code"), f"ptr {frame.get()}")
        with f.when(f.call("i1", "@users", "ptr %world", f"ptr {code}")):
            offset = f.v(f"sext i32 {f.call('i32', at(f, 'frame_lasti'), f'ptr {frame.get()}')} to i64")
            drop(f, frame.get())
            pair = f.call("ptr", at(f, "tuple"), "i64 2")
            number = f.call("ptr", at(f, "from_long"), f"i64 {offset}")
            with f.when(f.either(same(f, pair, "null"), same(f, number, "null")), seldom=True):
                f.call("void", at(f, "clear"))
                f.ret()
            f.store("ptr", code, item(f, pair, 0))
            f.store("ptr", number, item(f, pair, 1))
            give(f, pair, "%node", "node_origin")
            f.ret()
        drop(f, code)
        outer = f.call("ptr", at(f, "frame_back"), f"ptr {frame.get()}")
        drop(f, frame.get())
        with f.when(same(f, outer, "null")):
            f.ret()
        frame.set(outer)
    drop(f, frame.get())


__all__ = ["GLOBALS", "define"]
