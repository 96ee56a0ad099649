"""The first graph: y = (x + w)(w + 1) at x = 2, w = 1, its values, its gradients, and who keeps one.

    dy/dw = (w + 1) + (x + w) = 5        dy/dx = w + 1 = 2

Leaves keep their gradient in `.grad`; of the others only those that `retain_grad` marked.
"""

import warnings

import sapwood as torch
from sapwood.viz import graph_text


def main() -> dict[str, object]:
    w = torch.tensor([1.0], requires_grad=True)
    x = torch.tensor([2.0], requires_grad=True)
    a = torch.add(w, x)
    a.retain_grad()
    b = torch.add(w, 1)
    y = torch.mul(a, b)
    y.backward()
    print("is_leaf:", w.is_leaf, x.is_leaf, a.is_leaf, b.is_leaf, y.is_leaf)
    print("grad_fn:", w.grad_fn, x.grad_fn, a.grad_fn.name(), b.grad_fn.name(), y.grad_fn.name())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # b and y are non-leaves whose gradient nobody kept
        print("grad:   ", w.grad, x.grad, a.grad, b.grad, y.grad)
        result = {"y": y.item(), "w": w.grad.item(), "x": x.grad.item(), "a": a.grad.item(), "b": b.grad}
    print(graph_text(y, names={"w": w, "x": x, "a": a, "b": b, "y": y}))
    return result


if __name__ == "__main__":
    main()
