"""A softmax over very many classes, most of them rare (arXiv:1609.04309)."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..tensor import Tensor
from . import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of classes sorted by frequency, through clusters of growing size and shrinking width.

    Args:
        in_features: features of the input.
        n_classes: number of classes.
        cutoffs: increasing class numbers at which clusters begin.
        div_value: by how much each cluster is narrower than the one before.
        head_bias: whether the head has a bias.
        device: where the parameters live.
        dtype: their element type.

    Raises:
        ValueError: cutoffs are empty, not increasing, or not between 1 and n_classes - 1.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        given = list(cutoffs)
        rising = all(a < b for a, b in zip([0, *given], [*given, n_classes]))
        if not given or not rising or any(int(c) != c for c in given):
            raise ValueError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs must be increasing whole numbers from 1 to {n_classes - 1}, got "
                f"{given}"
            )
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*given, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            width = int(in_features // div_value ** (i + 1))
            narrow = Linear(in_features, width, bias=False, **where)
            self.tail.append(Sequential(narrow, Linear(width, high - low, bias=False, **where)))

    def reset_parameters(self) -> None:
        """Draw new values."""
        self.head.reset_parameters()
        for narrow, wide in self.tail:
            narrow.reset_parameters()
            wide.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        """Return (output, loss): the log-probability of each target, and minus their mean."""
        if (target_.dim(), input_.dim()) not in ((1, 2), (0, 1)):
            raise RuntimeError(
                "AdaptiveLogSoftmaxWithLoss: an input (N, in_features) with a target (N,), or (in_features,) with (), "
                f"is expected, got {tuple(input_.shape)} and {tuple(target_.shape)}"
            )
        if target_.dim() and input_.size(0) != target_.size(0):
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: {input_.size(0)} inputs and {target_.size(0)} targets do not fit together"
            )
        x: Any = input_ if target_.dim() else input_.unsqueeze(0)
        target: Any = target_ if target_.dim() else target_.unsqueeze(0)
        if bool(((target < 0) | (target >= self.n_classes)).any()):
            raise RuntimeError(f"AdaptiveLogSoftmaxWithLoss: targets must lie in [0, {self.n_classes - 1}]")
        # The head knows the frequent classes and, in the places after them, the clusters of the others.
        in_head = target.clone()
        parts = []
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            in_head[rows] = self.shortlist_size + i
            log_p: Any = F.log_softmax(self.tail[i](x.index_select(0, rows)), dim=1)
            local = (target.index_select(0, rows) - low).unsqueeze(1)
            parts.append((rows, log_p.gather(1, local).squeeze(1)))
        below: Any = ops.zeros(target.size(0), dtype=x.dtype)
        for rows, log_p in parts:
            below = below.index_copy(0, rows, log_p)
        in_all: Any = F.log_softmax(self.head(x), dim=1)
        output = below + in_all.gather(1, in_head.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if target_.dim() else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, (N, n_classes)."""
        head: Any = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, at : at + 1])
        out: Tensor = ops.cat(parts, 1)
        return out

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each input, (N,)."""
        found: Any = self.head(input).argmax(dim=1)
        rare = found >= self.shortlist_size
        if bool(rare.any()):
            found[rare] = self.log_prob(input[rare]).argmax(dim=1)
        out: Tensor = found
        return out
