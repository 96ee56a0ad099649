"""Write optim.json: where PyTorch 2.13's optimizers and schedulers get to, for `tests/optim`. Needs torch."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from optim_cases import OPTIMIZERS, SCHEDULERS, rates, train


def main() -> None:
    """Run every case."""
    out: dict[str, list[object]] = {"optimizers": [], "schedulers": []}
    for name, options in OPTIMIZERS:
        params, optimizer = train(torch.tensor, torch.optim, name, options)
        saved = optimizer.state_dict()
        out["optimizers"].append(
            {
                "params": [p.tolist() for p in params],
                "state": [[key, v.tolist(), str(v.dtype)] for key, v in saved["state"].get(1, {}).items()],
                "groups": [{k: v for k, v in g.items() if k != "betas"} for g in saved["param_groups"]],
                "repr": repr(optimizer),
            }
        )
    for name, options in SCHEDULERS:
        seen, keys = rates(torch.tensor, torch.optim, name, options)
        out["schedulers"].append({"rates": seen, "keys": keys})
    Path(__file__).with_name("optim.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main()
