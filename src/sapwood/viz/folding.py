"""Smaller drawings of large graphs: modules folded to one box each, repeated structure folded, or the rest left out."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sapwood.errors import ValueRangeError
from sapwood.viz.model import Drawing, Item, Link
from sapwood.viz.plan import Wire
from sapwood.viz.ranking import closing

__all__ = ["cut", "fold_modules", "fold_repeats", "ordered", "within"]

# The longest sequence of operations that counts as one step of a repetition, and the fewest repetitions worth folding.
LONGEST_STEP = 400
FEWEST = 3


def within(drawing: Drawing, limit: int | None) -> Drawing:
    """Return the drawing if it has at most `limit` items, else the largest of the smaller forms that does.

    Raises:
        ValueRangeError: the limit is less than 2.
    """
    if limit is None:
        return drawing
    if limit < 2:
        raise ValueRangeError(
            f"draw: expected a limit of at least 2 items, got {limit}; allow more, or None for no limit."
        )
    if len(drawing.items) <= limit:
        return drawing
    for depth in range(max(len(item.scope) for item in drawing.items) - 1, -1, -1):
        folded = fold_modules(drawing, depth)
        if len(folded.items) <= limit:
            return folded
        if depth == 0:
            drawing = folded
    folded = fold_repeats(drawing)
    return folded if len(folded.items) <= limit else cut(folded, limit)


def fold_modules(drawing: Drawing, depth: int) -> Drawing:
    """Return the drawing with every module below `depth` levels as one box."""
    members: dict[tuple[str, ...], list[int]] = {}
    for k, item in enumerate(drawing.items):
        if len(item.scope) > depth:
            members.setdefault(item.scope[: depth + 1], []).append(k)

    def box(path: tuple[str, ...], inside: list[int]) -> Item:
        kind = drawing.modules.get(path, "")
        name = ".".join(path)
        count = sum(drawing.items[k].kind == "op" for k in inside)
        lines = (name, counted(count, "operation")) if kind else (counted(count, "operation"),)
        return Item("module", kind or name, lines, f"module {name} {kind}".rstrip(), scope=path[:-1])

    worth = {path: inside for path, inside in members.items() if any(not drawing.items[k].is_variable for k in inside)}
    found = contracted(drawing, worth, box)
    return replace(found, modules={p: k for p, k in drawing.modules.items() if len(p) <= depth})


def fold_repeats(drawing: Drawing) -> Drawing:
    """Return the drawing with every repetition of a sequence of operations as one box, with the variables that it
    alone uses, once or twice."""
    into, out = degrees(drawing)
    steps = [k for k in range(len(drawing.items)) if into[k]]
    titles = [(drawing.items[k].kind, drawing.items[k].title) for k in steps]
    runs = repetitions(titles)
    members: dict[Any, list[int]] = {}
    of: dict[int, int] = {}
    for number, (start, stop, _) in enumerate(runs):
        members[number] = steps[start:stop]
        of.update(dict.fromkeys(members[number], number))
    users: dict[int, set[int]] = {}
    for link in drawing.links:
        if not into[link.source]:
            users.setdefault(link.source, set()).add(of.get(link.target, -1))
    own: dict[int, list[int]] = {}
    for k, used in users.items():
        if len(used) == 1 and -1 not in used and out[k] < FEWEST:
            own.setdefault(next(iter(used)), []).append(k)
    for number, variables in own.items():
        start, stop, period = runs[number]
        if len(variables) >= (stop - start) // period:
            members[number] += variables

    def box(number: Any, inside: list[int]) -> Item:
        start, stop, period = runs[number]
        names = [drawing.items[k].title for k in steps[start : start + period]]
        shown = ", ".join(names[:6]) + (f", … {len(names) - 6} more" if len(names) > 6 else "")
        times = (stop - start) // period
        leaves = len(inside) - (stop - start)
        lines = (shown, *([counted(leaves, "variable") + " inside"] if leaves else []))
        return Item("module", f"{times:,} ×", lines, f"{times:,} times: {', '.join(names[:40])}")

    return contracted(drawing, members, box)


def repetitions(titles: list[Any]) -> list[tuple[int, int, int]]:
    """Return runs (start, stop, period) in which a sequence repeats itself, longest steps forward first."""
    coming: dict[Any, int] = {}
    again = [len(titles)] * len(titles)  # where the same title comes next
    for k in range(len(titles) - 1, -1, -1):
        again[k] = coming.get(titles[k], len(titles))
        coming[titles[k]] = k
    runs = []
    at = 0
    while at < len(titles):
        best: tuple[int, int] | None = None
        # The period is a distance at which the title at hand comes again: the first few of these are tried.
        for period in periods(again, at):
            stop = at + period
            while stop < len(titles) and titles[stop] == titles[stop - period]:
                stop += 1
            times = (stop - at) // period
            if times >= FEWEST and (best is None or times * period > best[0] * best[1]):
                best = times, period
                if stop == len(titles) or times * period > 4 * LONGEST_STEP:
                    break
        if best is None:
            at += 1
            continue
        runs.append((at, at + best[0] * best[1], best[1]))
        at = runs[-1][1]
    return runs


def periods(again: list[int], at: int) -> list[int]:
    """Return the distances at which the title at a place comes again: the first few, the nearest first."""
    found: list[int] = []
    k = again[at]
    while k < len(again) and k - at <= LONGEST_STEP and len(found) < 12:
        found.append(k - at)
        k = again[k]
    return found


def cut(drawing: Drawing, limit: int) -> Drawing:
    """Return the end of the drawing: the items with the shortest way to what comes out, and one for all others."""
    forward = [link for link in drawing.links if link.source < link.target]
    height = [0] * len(drawing.items)
    for link in sorted(forward, key=lambda link: link.source, reverse=True):
        height[link.source] = max(height[link.source], height[link.target] + 1)
    nearest = sorted(range(len(drawing.items)), key=lambda k: (height[k], -k))
    left_out = sorted(nearest[limit - 1 :])
    rest = Item("more", f"… {len(left_out):,} more", (), f"{len(left_out):,} items further from the outputs")
    return contracted(drawing, {None: left_out}, lambda *_: rest)


def contracted(drawing: Drawing, members: dict[Any, list[int]], box: Callable[[Any, list[int]], Item]) -> Drawing:
    """Return the drawing with each set of items as one."""
    into: dict[int, Any] = {k: key for key, inside in members.items() for k in inside}
    items: list[Item] = []
    place: list[int] = []
    made: dict[Any, int] = {}
    for k, item in enumerate(drawing.items):
        if k not in into:
            place.append(len(items))
            items.append(item)
            continue
        key = into[k]
        if key not in made:
            made[key] = len(items)
            items.append(box(key, members[key]))
        place.append(made[key])
    found: dict[tuple[int, int], list[Link]] = {}
    for link in drawing.links:
        ends = place[link.source], place[link.target]
        if ends[0] != ends[1]:
            found.setdefault(ends, []).append(link)
    links = [merged(source, target, same) for (source, target), same in found.items()]
    return ordered(replace(drawing, items=items, links=links))


def merged(source: int, target: int, links: list[Link]) -> Link:
    """Return several links between the same two items as one, and with their number."""
    labels: dict[str, None] = {}
    count = 0
    for link in links:
        label, sign, times = link.label.rpartition("×")
        several = bool(sign) and times.replace(",", "").isdigit()
        count += int(times.replace(",", "")) if several else 1
        labels[label.strip() if several else link.label] = None
    label = next(iter(labels)) if len(labels) == 1 else ""
    if count > 1:
        label = f"{label} ×{count:,}".strip()
    dtypes = dict.fromkeys(link.dtype for link in links)
    return Link(source, target, label, all(k.dashed for k in links), next(iter(dtypes)) if len(dtypes) == 1 else "")


def ordered(drawing: Drawing) -> Drawing:
    """Return the drawing with items so ordered that links lead forward, save dashed ones that close a cycle.

    A folded module that is left and entered again makes a cycle. The order stays as it is where it can.
    """
    wires = [Wire(link.source, link.target) for link in drawing.links]
    back = closing(len(drawing.items), wires)
    after: list[list[int]] = [[] for _ in drawing.items]
    waiting = [0] * len(drawing.items)
    for i, link in enumerate(drawing.links):
        if i not in back:
            after[link.source].append(link.target)
            waiting[link.target] += 1
    free = [k for k, number in enumerate(waiting) if not number]
    order: list[int] = []
    while free:
        at = heapq.heappop(free)
        order.append(at)
        for target in after[at]:
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(free, target)
    place = {old: new for new, old in enumerate(order)}
    links = [
        replace(link, source=place[link.source], target=place[link.target], dashed=link.dashed or i in back)
        for i, link in enumerate(drawing.links)
    ]
    return replace(drawing, items=[drawing.items[k] for k in order], links=links)


def degrees(drawing: Drawing) -> tuple[list[int], list[int]]:
    """Return how many links lead to each item, and from it."""
    into, out = [0] * len(drawing.items), [0] * len(drawing.items)
    for link in drawing.links:
        out[link.source] += 1
        into[link.target] += 1
    return into, out


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")
