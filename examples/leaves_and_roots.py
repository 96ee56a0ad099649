"""Leaf, non-leaf and root tensors: where a graph begins, what lies between, and where backward starts.

A leaf is a tensor that no recorded op made. Everything computed from no-grad tensors is a leaf too. The root is the
tensor backward is called on.
"""

import sapwood as torch


def row(name: str, t: torch.Tensor) -> tuple[str, bool, bool, str]:
    made_by = "-" if t.grad_fn is None else t.grad_fn.name()
    return name, t.is_leaf, t.requires_grad, made_by


def main() -> list[tuple[str, bool, bool, str]]:
    w = torch.rand(2, requires_grad=True)  # a leaf that is trained
    x = torch.rand(2)  # a leaf that is not
    h = w * x  # a non-leaf
    loss = h.sum()  # the root
    rows = [
        row("w", w),
        row("x", x),
        row("x * 2", x * 2),
        row("h = w * x", h),
        row("loss = h.sum()", loss),
        row("h.detach()", h.detach()),
        row("w.double()", w.double()),
        row("w.float() is w", w.float()),
    ]
    with torch.no_grad():
        rows.append(row("w * 2 under no_grad", w * 2))
    print(f"{'tensor':22s}{'is_leaf':9s}{'requires_grad':15s}grad_fn")
    for name, leaf, requires, made_by in rows:
        print(f"{name:22s}{leaf!s:9s}{requires!s:15s}{made_by}")
    loss.backward()
    print("w.grad equals x:", torch.equal(w.grad, x))
    return rows


if __name__ == "__main__":
    main()
