"""Write data.json: the batches of PyTorch 2.13's loaders, for `tests/data`. Needs torch."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import torch.utils.data
from data_cases import epochs, loaders


def main() -> None:
    """Run every loader."""
    torch.manual_seed(1)
    out = [[len(loader), epochs(torch, loader)] for loader in loaders(torch, torch.utils.data)]
    Path(__file__).with_name("data.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main()
