"""The programs whose results `make_optim.py` stores and `tests/optim` repeats; neither side of them imports torch."""

from __future__ import annotations

from typing import Any

import numpy as np

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.5, "dampening": 0.2, "maximize": True, "weight_decay": 0.01}),
    ("Adam", {}),
    ("Adam", {"weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    ("AdamW", {"weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("Adadelta", {"weight_decay": 0.1, "rho": 0.5}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"weight_decay": 0.1}),
    ("Rprop", {"etas": (0.4, 1.3), "step_sizes": (1e-3, 0.02)}),
    ("ASGD", {"t0": 3, "weight_decay": 0.1, "lambd": 0.01}),
    ("Adafactor", {"weight_decay": 0.1, "d": 1.5}),
]
STEPS = 8
SHAPES = [(7,), (3, 4), (2, 3, 4)]

SCHEDULERS: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 2}),
    ("MultiStepLR", {"milestones": [2, 3, 3]}),
    ("ConstantLR", {}),
    ("LinearLR", {}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {"power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 4, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "step_size_up": 3, "mode": "triangular2"}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 12}),
]
EPOCHS = 12


def values() -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """Return parameters and the gradients of every step, float64."""
    rng = np.random.default_rng(0)
    params = [rng.standard_normal(s) for s in SHAPES]
    return params, [[rng.standard_normal(s) for s in SHAPES] for _ in range(STEPS)]


def train(tensor: Any, optim: Any, name: str, options: dict[str, Any]) -> tuple[list[Any], Any]:
    """Run one optimizer on these gradients and return (parameters, optimizer); one gradient is None at one step."""
    start, gradients = values()
    params = [tensor(p).requires_grad_() for p in start]
    optimizer = getattr(optim, name)([{"params": params[:1]}, {"params": params[1:], "lr": 0.02}], **options)
    for i, step in enumerate(gradients):
        for j, (p, g) in enumerate(zip(params, step)):
            p.grad = None if (i, j) == (2, 1) else tensor(g)
        optimizer.step()
    return params, optimizer


def rates(tensor: Any, optim: Any, name: str, options: dict[str, Any]) -> tuple[list[Any], list[str]]:
    """Return the rates and momentums of every epoch, and the sorted keys of the scheduler's state."""
    p = tensor(np.zeros(2)).requires_grad_()
    q = tensor(np.zeros(2)).requires_grad_()
    optimizer = optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.05}], lr=0.1, momentum=0.9)
    scheduler = getattr(optim.lr_scheduler, name)(optimizer, **options)
    seen = []
    for _ in range(EPOCHS):
        seen.append([[g["lr"], g["momentum"]] for g in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return seen, sorted(scheduler.state_dict())
