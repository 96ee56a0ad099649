"""All workloads, ours and the peers', in one run: processes take turns, the best of several rounds counts.

    python benchmarks/run.py [CASE …] [--rounds 3] [--seconds 1] [--peers torch torch.compile jax.jit …]
                             [--out docs/benchmarks.md]

A ratio is the peer's time over ours: above 1, Sapwood is faster. A peer that is not installed, or cannot do a case, is
left out with the reason. Besides the times: the memory a training step takes, import time, and installed size.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIKE_TORCH = ("sapwood", "torch", "torch.compile")
CASES = {
    "recorded_multiply": "one-element multiply, recorded", "plain_multiply": "the same, not recorded",
    "seed_graph": "y = (w + x)(w + 1), forward and backward", "chain_of_100": "100 scalar ops, forward and backward",
    "regression_step": "a regression step on 100 points", "add_10M": "add, 10 M elements", "gelu_4M": "gelu, 4 M",
    "chain_1M": "exp(sigmoid(tanh(2a + 1))).sum(), 1 M", "softmax": "softmax 512×1024, both ways",
    "layer_norm": "layer_norm 512×1024, both ways", "cross_entropy": "cross_entropy 512×1024, both ways",
    "matmul_1024": "matmul 1024×1024", "adam_100x10k": "Adam over 100 tensors of 10 k",
    "mlp_small": "MLP 64-128-10, batch 64", "mlp_784": "MLP 784-512-512-10, batch 128",
    "cnn_28": "CNN on 28×28, batch 32", "resnet_32": "ResNet on 32×32, batch 32",
    "lstm_40": "LSTM 32→64, 40 steps, batch 32", "gpt_4x128": "GPT 4×128, 64 tokens, batch 12",
}  # fmt: skip
"""Cases and what they are called in the table; from `mlp_small` on, whole training steps."""
BARS = {
    "recorded_multiply": 4, "plain_multiply": 3, "seed_graph": 6, "chain_of_100": 3, "add_10M": 2, "gelu_4M": 2,
    "chain_1M": 2.5, "softmax": 1.5, "layer_norm": 1.5, "cross_entropy": 1.5, "matmul_1024": 1, "adam_100x10k": 3,
    "mlp_small": 4, "mlp_784": 1.6, "cnn_28": 1.6, "resnet_32": 1.3, "lstm_40": 2, "gpt_4x128": 1.5,
}  # fmt: skip
"""The least ratio to PyTorch that each case is meant to reach."""
PEERS = ["torch", "torch.compile", "jax.jit", "autograd", "tinygrad", "mlx"]
MEMORY = ("cnn_28", "resnet_32", "gpt_4x128")


def measure(peer: str, case: str, seconds: float, memory: bool) -> float:
    """Return seconds per step in this process, or the bytes it grows by in 20 steps."""
    import resource

    import workloads

    step: Any
    if peer in LIKE_TORCH:
        import kernels
        import training

        t = importlib.import_module(peer.partition(".")[0])
        for part in ("nn", "nn.functional", "optim"):
            importlib.import_module(f"{t.__name__}.{part}")
        t.manual_seed(0)
        t.set_num_threads(2)
        known = {w.__name__: w for w in (*workloads.WORKLOADS, *kernels.WORKLOADS, *training.WORKLOADS)}
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        step = known[case](t)
        if peer == "torch.compile":
            step = t.compile(step)
    else:
        import peers

        before = 0
        step = getattr(peers.PEERS[peer](), case)()
    if memory:
        for _ in range(20):
            step()
        return 1024.0 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return workloads.best_seconds(step, seconds)


def once(peer: str, case: str, seconds: float, memory: bool = False) -> tuple[float | None, str]:
    """Measure in a process of its own; return the figure, or None and why there is none."""
    command = [sys.executable, str(Path(__file__).resolve()), "--one", peer, case, str(seconds), str(int(memory))]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return None, "took longer than 300 s"
    if result.returncode:
        return None, (result.stderr.strip().splitlines() or ["no message"])[-1]
    return float(result.stdout.split()[-1]), ""


def able(peer: str, case: str) -> str:
    """Return why a peer has no such case, or nothing."""
    if importlib.util.find_spec(peer.partition(".")[0]) is None:
        return "not installed"
    if peer in LIKE_TORCH:
        return ""
    import peers

    return "" if hasattr(peers.PEERS[peer], case) else "–"


def times(cases: list[str], peers: list[str], rounds: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Return per case and peer the best seconds, or the reason in words."""
    found: dict[str, dict[str, Any]] = {}
    for case in cases:
        row: dict[str, Any] = {p: able(p, case) for p in peers}
        for _ in range(rounds):
            for peer in peers:
                if row[peer] != "" and isinstance(row[peer], str):
                    continue
                value, why = once(peer, case, seconds)
                if value is not None:
                    row[peer] = min(value, row[peer] or value)
                elif not row[peer]:
                    row[peer] = why
        found[case] = row
        print(case, *(f"{p} {row[p] * 1e6:.1f} µs" if row[p] and type(row[p]) is float else f"{p}: {row[p]}"
                      for p in peers), sep="  ", flush=True)  # fmt: skip
    return found


def installed_bytes(package: str, seen: set[str] | None = None) -> int:
    """Return the size of an installed distribution's files with those of what it requires, extras left out."""
    seen = set() if seen is None else seen
    name = package.lower().replace("_", "-")
    if name in seen:
        return 0
    seen.add(name)
    try:
        found = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return 0
    if name == "sapwood" and (source := HERE.parent / "src").is_dir():
        total = sum(p.stat().st_size for p in source.rglob("*") if p.suffix != ".pyc" and p.is_file())
    else:
        paths = [Path(str(found.locate_file(f))) for f in found.files or ()]
        total = sum(p.stat().st_size for p in paths if p.is_file())
    for line in found.requires or ():
        if "extra ==" not in line:
            total += installed_bytes(re.split(r"[ ;<>=!~\[(]", line)[0], seen)
    return total


def machine() -> str:
    """Return the processor, cores, load, Python and date in one line."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    except OSError:
        pass
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{model}, {os.cpu_count()} cores, two threads for Sapwood and torch, load {load} at the start, "
        f"Python {platform.python_version()}, {date.today().isoformat()}"
    )


def version_of(peer: str) -> str:
    """Return the version of a peer's package."""
    package = peer.partition(".")[0]
    if package == "sapwood":
        import sapwood

        return sapwood.__version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def table(found: dict[str, Any]) -> str:
    """Return the figures as a page of Markdown."""
    peers = [p for p in found["peers"] if p != "sapwood"]
    versions = ", ".join(f"{p} {v}" for p, v in found["versions"].items())
    lines = [
        "# Benchmarks", "",
        "Written by `make bench`. Every peer is measured in the same run, in processes that take turns; the best of",
        f"{found['rounds']} rounds counts. Times in microseconds a step, in brackets the ratio peer / Sapwood: above",
        "1, Sapwood is faster.", "",
        f"- Machine: {found['machine']}", f"- Versions: {versions}", "",
        "![The ratio to PyTorch, case by case](benchmarks.svg)", "",
        "| case | bar | Sapwood | " + " | ".join(peers) + " |", "|---|---|---|" + "---|" * len(peers),
    ]  # fmt: skip
    for case, row in found["times"].items():
        ours = row["sapwood"]
        cells = [CASES[case], str(BARS.get(case, "")), _number(ours)]
        for peer in peers:
            known = isinstance(row[peer], float) and isinstance(ours, float)
            cells.append(
                f"{_number(row[peer])} ({row[peer] / ours:.2f})" if known else str(row[peer])[:60].replace("|", "/")
            )
        lines.append("| " + " | ".join(cells).replace("\n", " ") + " |")
    what = "Memory that a process grows by in twenty training steps, import time, and installed size with requirements:"
    lines += ["", what, "", "| | Sapwood | torch | torch / Sapwood |", "|---|---|---|---|"]
    for name, (ours, theirs, unit) in found["others"].items():
        known = isinstance(ours, float) and isinstance(theirs, float) and ours > 0
        ratio = f"{theirs / ours:.2f}" if known else ""
        lines.append(f"| {name} | {_with(ours, unit)} | {_with(theirs, unit)} | {ratio} |")
    return "\n".join([*lines, ""])


def _number(x: Any) -> str:
    return f"{x * 1e6:,.1f}" if isinstance(x, float) else str(x)


def _with(x: Any, unit: str) -> str:
    return f"{x:,.0f} {unit}" if isinstance(x, float) else str(x)


def chart(found: dict[str, Any], path: Path) -> None:
    """Draw the ratios to PyTorch as bars on a logarithmic scale, with the bar each case is meant to reach."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "sapwood"
    from matplotlib import pyplot

    known = {
        c: r["torch"] / r["sapwood"]
        for c, r in found["times"].items()
        if isinstance(r.get("torch"), float) and isinstance(r["sapwood"], float)
    }
    if not known:
        return
    names = list(known)[::-1]
    figure, axes = pyplot.subplots(figsize=(9, 0.34 * len(names) + 1.2), layout="constrained")
    axes.barh([CASES[c] for c in names], [known[c] for c in names], color="#3b7a57", log=True)
    for i, c in enumerate(names):
        if c in BARS:
            axes.plot([BARS[c]] * 2, [i - 0.4, i + 0.4], color="#222222", linewidth=1.5)
        axes.annotate(f" {known[c]:.2f}", (known[c], i), va="center", fontsize=8)
    axes.axvline(1, color="#888888", linewidth=0.8)
    axes.set_xlabel("time of PyTorch / time of Sapwood; black marks: what is aimed at")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def others(peers: list[str], rounds: int) -> dict[str, tuple[Any, Any, str]]:
    """Return memory, import time and installed size, ours and torch's."""
    from overhead import import_milliseconds

    found: dict[str, tuple[Any, Any, str]] = {}
    pair = ("sapwood", "torch")
    for case in MEMORY:
        values = []
        for peer in pair:
            value, why = once(peer, case, 0, True) if peer in peers and not able(peer, case) else (None, "not measured")
            values.append(why if value is None else value / 2**20)
        found[f"memory, {CASES[case]}"] = (values[0], values[1], "MiB")
    if "torch" not in peers or able("torch", ""):
        return found
    bare = [min(import_milliseconds(p) for _ in range(rounds + 1)) for p in pair]
    found["import"] = (*bare, "ms")  # type: ignore[assignment]
    found["installed"] = (*(installed_bytes(p) / 1e6 for p in pair), "MB")  # type: ignore[assignment]
    return found


def main() -> None:
    """Run everything, print progress, and write the table, the chart and the raw figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument(
        "--peers", nargs="*", default=["torch", "torch.compile", "jax.jit", "autograd", "tinygrad", "mlx"]
    )
    parser.add_argument("--out", default="out/benchmarks.md", help="the page; chart and figures go beside it")
    options = parser.parse_args()
    unknown = [c for c in options.cases if c not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    peers = ["sapwood", *options.peers]
    found: dict[str, Any] = {"machine": machine(), "rounds": options.rounds, "peers": peers}
    found["versions"] = {p: version_of(p) for p in peers}
    found["times"] = times(options.cases or list(CASES), peers, options.rounds, options.seconds)
    found["others"] = {} if options.cases else others(peers, options.rounds)
    out = Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    out.write_text(table(found))
    try:
        chart(found, out.with_suffix(".svg"))
    except ImportError:
        print("no chart: matplotlib is not installed")
    print(f"written: {out}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(measure(sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5] == "1"))
    else:
        main()
