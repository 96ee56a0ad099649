"""Write func.json: what PyTorch's transforms return for the programs of func_cases. Needs torch 2.13.

python tests/golden/make_func.py
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from func_cases import programs


def recorded(x: Any, package: Any) -> Any:
    """Return a nest of tensors as JSON: [dtype, shape, requires_grad, values], complex values as pairs."""
    if isinstance(x, package.Tensor):
        values = package.view_as_real(x.detach()) if x.is_complex() else x.detach()
        return ["T", str(x.dtype).split(".")[-1], list(x.shape), bool(x.requires_grad), values.reshape(-1).tolist()]
    if isinstance(x, dict):
        return {k: recorded(v, package) for k, v in x.items()}
    if isinstance(x, tuple | list):
        return ["list" if type(x) is list else "tuple", [recorded(v, package) for v in x]]
    return repr(x)


def outcome(run: Any, package: Any) -> Any:
    """Return what a program returns, or the built-in class of the error it raises."""
    try:
        return recorded(run(), package)
    except Exception as problem:
        return ["error", next(c.__name__ for c in type(problem).__mro__ if c.__module__ == "builtins")]


if __name__ == "__main__":
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    made = {name: outcome(run, torch) for name, run in programs(torch).items()}
    path = Path(__file__).parent / "func.json"
    path.write_text(json.dumps(made, separators=(",", ":")) + "\n")
    print(f"{path}: {len(made)} programs")
