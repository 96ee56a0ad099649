"""Fit y = w·x² + b to noisy points by hand-written gradient descent, and draw the points and the curve.

The true parameters are 3 and 2, plus noise that is uniform on [0, 0.2); with seed 100, learning rate 0.001 and 800
steps the fit ends at w = 2.9668, b = 2.1138, the same digits PyTorch gives.
"""

import sys
from pathlib import Path

import sapwood as torch


def main(picture: str | None = "out/quadratic_regression.png") -> tuple[float, float]:
    torch.manual_seed(100)
    x = torch.unsqueeze(torch.linspace(-1, 1, 100), dim=1)
    y = 3 * x.pow(2) + 2 + 0.2 * torch.rand(x.size())
    w = torch.randn(1, 1, dtype=torch.float, requires_grad=True)
    b = torch.zeros(1, 1, dtype=torch.float, requires_grad=True)
    lr = 0.001
    for _ in range(800):
        y_pred = x.pow(2).mm(w) + b
        loss = ((y - y_pred) ** 2).sum()
        loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
            b -= lr * b.grad
            w.grad.zero_()
            b.grad.zero_()
    print(w, b)
    if picture is not None:
        draw(x, y, w * x.pow(2) + b, Path(picture))
    return round(w.item(), 4), round(b.item(), 4)


def draw(x: torch.Tensor, y: torch.Tensor, fitted: torch.Tensor, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots()
    axes.scatter(x.numpy(), y.numpy(), s=12, label="data")
    axes.plot(x.numpy(), fitted.detach().numpy(), "r-", label="fit")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)
    print("drawn:", path)


if __name__ == "__main__":
    main(*sys.argv[1:])
