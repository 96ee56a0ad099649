"""Write random.npz: what PyTorch 2.13 draws, for `tests/test_random_streams.py`. Needs torch; run from anywhere.

A case is a dict: the call, its dtype, shape, seed and layout. Small results are stored as bytes, large ones as SHA-256;
with every case goes the SHA-256 of the generator's state afterwards (`words`: without the spare normal number), which
tells that as much was drawn.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import torch

REAL = ("float32", "float64", "float16", "bfloat16")
WHOLE = ("int8", "uint8", "int16", "int32", "int64", "bool")
SIZES = (0, 1, 15, 16, 17, 31, 32, 33, 1000, 100_000)
FEW = (1, 33)

FILLS = [
    ("uniform_", (), (*REAL, "complex64", "complex128"), SIZES),
    ("uniform_", (-0.1, 0.237), REAL, (17, 1000, 100_000)),
    ("uniform_", (0.3, 0.3), REAL, (3,)),
    ("normal_", (), (*REAL, "complex64", "complex128"), SIZES),
    ("normal_", (0.3, 1.7), REAL, (15, 33, 100_000)),
    ("exponential_", (), REAL, (0, 1, 33, 100_000)),
    ("exponential_", (0.7,), REAL, FEW),
    ("cauchy_", (), REAL, FEW),
    ("cauchy_", (0.1, 1.3), REAL, (33, 100_000)),
    ("log_normal_", (), REAL, FEW),
    ("log_normal_", (0.3, 0.7), REAL, (33, 100_000)),
    ("geometric_", (0.2,), (*REAL, "int8", "uint8", "int16", "int32", "int64"), (33, 1000)),
    ("bernoulli_", (0.3,), (*REAL, *WHOLE), (0, 33, 100_000)),
    ("bernoulli_", (0.0,), ("float32",), FEW),
    ("bernoulli_", (1.0,), ("float32",), FEW),
    ("random_", (), (*REAL, *WHOLE), (0, 33, 1000)),
    ("random_", (0, 2), (*REAL, *WHOLE), FEW),
    ("random_", (-3, 100), (*REAL, "int8", "int16", "int32", "int64"), (33, 100_000)),
    ("random_", (0, 2**28 - 1), ("int32", "int64", "float32", "bfloat16"), FEW),
    ("random_", (0, 2**28), ("int32", "int64", "float32", "float64"), FEW),
    ("random_", (-(2**31), 2**31), ("int32", "int64", "float64"), FEW),
    ("random_", (-(2**63), 2**63 - 1), ("int64",), FEW),
    ("random_", (-(2**63), None), ("int64", "float64", "float32", "bfloat16"), FEW),
    ("random_", (5, None), (*REAL, *WHOLE[:-1]), FEW),
    ("random_", (5, 65504), ("float16", "float32", "int32"), FEW),
    ("random_", (3, 300), ("bfloat16",), (1000,)),
    ("dropout", (0.3,), REAL, (33, 100_000)),
    ("trunc_normal_", (0.0, 0.02), REAL, (33, 1000)),
    ("trunc_normal_", (0.0, 1.0, 1.5, 3.0), REAL, (33, 1000)),
    ("trunc_normal_", (0.1, 0.7, -0.3, 0.2), REAL, (33, 1000)),
]
# Parameters as (low, high) of np.linspace over the shape, rounded to whole numbers where marked.
DRAWS = [
    ("bernoulli", [(0, 1, False)], REAL, (33, 1000)),
    ("poisson", [(0, 9.9, False)], REAL, (33, 1000)),
    ("poisson", [(10, 5000, False)], REAL, (33, 1000)),
    ("standard_gamma", [(1e-3, 0.99, False)], REAL[:2], (33, 1000)),
    ("standard_gamma", [(1, 50, False)], REAL[:2], (33, 1000)),
    ("binomial", [(0, 12, True), (0, 1, False)], REAL[:2], (33, 1000)),
    ("binomial", [(30, 2000, True), (0.9, 0.1, False)], REAL[:2], (33, 1000)),
    ("normal", [(-2, 3, False), (0, 2, False)], REAL, (3, 33)),
]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def data_of(tensor: torch.Tensor) -> bytes:
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def fill(case: dict) -> torch.Tensor:
    rows, dtype = case["size"], getattr(torch, case["dtype"])
    base = torch.zeros(rows, 6, dtype=dtype) if case["layout"] == "strided" else torch.zeros(rows, dtype=dtype)
    out = base[:, ::2].t() if case["layout"] == "strided" else base
    if case["op"] == "dropout":
        return torch.nn.functional.dropout(base + 1, *case["args"], training=True)
    if case["op"] == "trunc_normal_":
        torch.nn.init.trunc_normal_(out, *case["args"])
    else:
        getattr(out, case["op"])(*case["args"])
    return base


def parameters(case: dict) -> list[torch.Tensor]:
    values = [np.linspace(low, high, case["size"]) for low, high, _ in case["params"]]
    values = [np.round(v) if p[2] else v for v, p in zip(values, case["params"])]
    return [torch.tensor(v).to(getattr(torch, case["dtype"])) for v in values]


def draw(case: dict) -> torch.Tensor:
    function = {"standard_gamma": torch._standard_gamma}.get(case["op"]) or getattr(torch, case["op"])
    return function(*parameters(case))


def matrix(case: dict) -> torch.Tensor:
    """Values k mod 7 · 0.7 + 0.05 in the case's shape: no ties, no zeros."""
    values = np.arange(np.prod(case["shape"])).reshape(case["shape"]) % 7 * 0.7 + 0.05
    return torch.tensor(values).to(getattr(torch, case["dtype"]))


def other(case: dict) -> torch.Tensor:
    if case["op"] == "randperm":
        return torch.randperm(*case["args"], dtype=getattr(torch, case["dtype"]))
    if case["op"] == "multinomial":
        return torch.multinomial(matrix(case), *case["args"])
    if case["op"] == "dirichlet":
        return torch._sample_dirichlet(matrix(case))
    mean, std = matrix(case), matrix(case)
    number = case["args"][0]
    return torch.normal(mean, number) if case["op"] == "normal_by_mean" else torch.normal(number, std)


def cases() -> list[dict]:
    out = []
    for op, args, dtypes, sizes in FILLS:
        for dtype in dtypes:
            out += [{"op": op, "args": args, "dtype": dtype, "size": n, "layout": "flat"} for n in sizes]
    for op in ("uniform_", "normal_", "exponential_", "bernoulli_", "random_"):
        args = {"bernoulli_": (0.4,), "random_": (0, 1000)}.get(op, ())
        for dtype in ("float32", "float64"):
            out += [{"op": op, "args": args, "dtype": dtype, "size": n, "layout": "strided"} for n in (1, 5, 6, 40)]
    for op, params, dtypes, sizes in DRAWS:
        out += [{"op": op, "params": params, "dtype": d, "size": n} for d in dtypes for n in sizes]
    for n in (0, 1, 2, 15, 999, 1000, 1001, 100_000):
        out.append({"op": "randperm", "args": (n,), "dtype": "int64"})
    out += [{"op": "randperm", "args": (100,), "dtype": d} for d in ("int8", "float32", "bfloat16")]
    for dtype in REAL[:2]:
        for shape, args in (((7,), (1, False)), ((4, 7), (1, True)), ((4, 7), (3, False)), ((3, 7), (50, True))):
            out.append({"op": "multinomial", "shape": shape, "args": args, "dtype": dtype})
        out.append({"op": "dirichlet", "shape": (50, 3), "dtype": dtype})
        for op in ("normal_by_mean", "normal_by_std"):
            out += [{"op": op, "shape": (n,), "args": (0.7,), "dtype": dtype} for n in (3, 33)]
    return out


def states() -> dict[str, np.ndarray]:
    """States saved at telling moments, each with the eight float64 normals that PyTorch draws from there."""
    moments = {
        "fresh": lambda: None,
        "one_word": lambda: torch.rand(1),
        "spare_normal": lambda: torch.randn(3),
        "all_words": lambda: torch.rand(624),
        "next_round": lambda: torch.rand(625),
    }
    out = {}
    for name, advance in moments.items():
        torch.manual_seed(-5)
        advance()
        out[f"state_{name}"] = torch.get_rng_state().numpy()
        out[f"after_{name}"] = torch.randn(8, dtype=torch.float64).numpy()
    return out


def main() -> None:
    arrays, listed = states(), cases()
    for number, case in enumerate(listed):
        case["seed"] = 2**40 + number
        torch.manual_seed(case["seed"])
        result = fill(case) if "layout" in case else draw(case) if "params" in case else other(case)
        data = data_of(result)
        state = torch.get_rng_state().numpy().tobytes()
        case["sha256"], case["state"], case["words"] = sha(data), sha(state), sha(state[:5016])
        if len(data) <= 300:
            arrays[f"case_{number}"] = np.frombuffer(data, np.uint8)
    arrays["cases"] = np.frombuffer(json.dumps(listed).encode(), np.uint8)
    np.savez_compressed(Path(__file__).with_name("random.npz"), **arrays)
    print(f"{len(listed)} cases")


if __name__ == "__main__":
    main()
