"""Write nn.json: printed forms, states, first values and outputs of PyTorch's modules. Needs torch 2.13.

python tests/golden/make_nn.py
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from nn_cases import CASES


def describe(package: Any, made: str, inputs: str) -> dict[str, Any]:
    """Return what the golden file records of one case, computed by `package`."""
    nn = package.nn

    def f(*shape: int) -> Any:
        n = 1
        for s in shape:
            n *= s
        # A multiplicative walk around the unit interval: no value twice, no order, exact in float32.
        return (package.tensor([(k * 37 + 11) % 101 / 64 - 0.75 for k in range(n)])).reshape(shape)

    def i(high: int, *shape: int) -> Any:
        n = 1
        for s in shape:
            n *= s
        return package.tensor([(k * 7 + 2) % high for k in range(n)]).reshape(shape)

    names = {"nn": nn, "f": f, "i": i, "nn_dtype": lambda n: getattr(package, n)}
    package.manual_seed(100)
    module = eval(made, names)
    # The next draw shows that exactly as many numbers were taken as PyTorch takes.
    found: dict[str, Any] = {"repr": repr(module), "next": package.rand(1).item(), "state": {}}
    for name, value in module.state_dict().items():
        found["state"][name] = [list(value.shape), value.reshape(-1).tolist()]
    if inputs:
        module.train()
        out = module(*eval(f"({inputs},)", names))
        found["out"] = [[list(o.shape), o.detach().reshape(-1).tolist()] for o in flat(out)]
    return found


def flat(out: Any) -> list[Any]:
    """Return the tensors in nested tuples, in order."""
    if isinstance(out, tuple | list):
        return [t for o in out for t in flat(o)]
    return [] if out is None else [out]


if __name__ == "__main__":
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    cases = [{"made": made, "inputs": inputs, **describe(torch, made, inputs)} for made, inputs in CASES]
    lines = ",\n".join(json.dumps(case) for case in cases)
    (Path(__file__).parent / "nn.json").write_text(f"[\n{lines}\n]\n")
