"""Write small files with torch.save, and what is in them, for tests/test_serialization.py. Needs torch 2.13.

python tests/golden/make_serialized.py
"""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import torch

FOLDER = Path(__file__).parent / "serialized"
DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


class Own:
    """An object that is no weight."""


def objects():
    torch.manual_seed(0)
    a = torch.arange(12.0).reshape(3, 4)
    yield "dtypes", {n: torch.tensor([[0, 1, 0], [1, 1, 1]]).to(getattr(torch, n)) for n in DTYPES}
    yield "views", {"a": a, "row": a[1:], "t": a.t(), "step": a[:, ::2], "wide": a[0].expand(5, 4), "zero": a[0, 0]}
    yield "shapes", [torch.tensor(3.5), torch.empty(0), torch.empty(0, 3), torch.zeros(2, 0, 5, dtype=torch.int64)]
    w = torch.nn.Parameter(a.clone())
    w.tag = "mine"
    t = a.clone()
    t.note = {"k": 1}
    yield (
        "parameters",
        {
            "p": torch.nn.Parameter(a.clone()),
            "frozen": torch.nn.Parameter(a.clone(), requires_grad=False),
            "leaf": a.clone().requires_grad_(),
            "result": a.clone().requires_grad_() * 2,
            "tagged": w,
            "noted": t,
            "twice": [w, w],
        },
    )
    hooked = torch.ones(2, requires_grad=True)
    hooked.register_hook(print_gradient)
    yield "hooks", hooked
    model = torch.nn.Sequential(OrderedDict(a=torch.nn.Linear(3, 4), b=torch.nn.BatchNorm1d(4), c=torch.nn.Tanh()))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    yield "training", {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    yield "plain", {
        "ints": [1, -5, 2**70], "float": 1.5, "text": "hé", "none": None, "flag": True, "bytes": b"\x00\xff",
        "set": {1, 2}, "complex": 1 + 2j, "size": torch.Size([2, 3]), "device": torch.device("cpu"),
        "dtype": torch.bfloat16, "order": OrderedDict(z=1, a=2),
    }  # fmt: skip
    yield "module", torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    yield "own", Own()


def print_gradient(gradient):
    print(gradient)


def described(value):
    """Return what must come out again, as JSON."""
    if isinstance(value, torch.Tensor):
        wide = torch.complex128 if value.is_complex() else torch.float64
        values = value.detach().to(wide)
        values = torch.view_as_real(values) if value.is_complex() else values
        return {
            "tensor": str(value.dtype),
            "shape": list(value.shape),
            "stride": list(value.stride()),
            "offset": value.storage_offset(),
            "requires_grad": value.requires_grad,
            "parameter": isinstance(value, torch.nn.Parameter),
            "values": values.tolist(),
        }
    if isinstance(value, dict):
        return {"dict": type(value).__name__, "items": [[str(k), described(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return {"list": type(value).__name__, "items": [described(v) for v in value]}
    return {"value": repr(value)}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    expected = {}
    for name, value in objects():
        torch.save(value, FOLDER / f"{name}.pt")
        if name not in ("module", "own"):
            expected[name] = described(value)
    torch.save({"w": torch.ones(2)}, FOLDER / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.serialization.set_crc32_options(False)
    torch.save({"w": torch.ones(2)}, FOLDER / "unchecked.pt")
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
