"""A graph with a shared leaf: y = sin(a·x + b)·x, where x is used twice and its gradient is a sum over two paths.

dy/da = cos(a·x + b)·x²      dy/db = cos(a·x + b)·x      dy/dx = cos(a·x + b)·a·x + sin(a·x + b)
"""

import math

import sapwood as torch


def main() -> dict[str, float]:
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(0.5, requires_grad=True)
    x = torch.tensor(1.5, requires_grad=True)
    y = torch.sin(a * x + b) * x
    y.backward()
    inner = 2.0 * 1.5 + 0.5
    expected = {
        "a": math.cos(inner) * 1.5**2,
        "b": math.cos(inner) * 1.5,
        "x": math.cos(inner) * 2.0 * 1.5 + math.sin(inner),
    }
    found = {"a": a.grad.item(), "b": b.grad.item(), "x": x.grad.item()}
    for name, value in found.items():
        print(f"dy/d{name} = {value:+.6f}   by hand {expected[name]:+.6f}")
    print("y:", y)
    return found


if __name__ == "__main__":
    main()
