"""Tables of vectors looked up by index: `Embedding` and `EmbeddingBag`."""

from __future__ import annotations

from typing import Any, Self

from .. import ops
from ..autograd.mode import no_grad
from ..tensor import Parameter, Tensor
from . import functional as F
from . import init
from .module import Module


class _Table(Module):
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    weight: Tensor

    def _make_weight(self, given: Any, requires_grad: bool, device: Any, dtype: Any) -> None:
        size = (self.num_embeddings, self.embedding_dim)
        if given is None:
            self.weight = Parameter(ops.empty(size, device=device, dtype=dtype), requires_grad=requires_grad)
            self.reset_parameters()
            return
        if tuple(given.shape) != size:
            raise AssertionError(f"{type(self).__name__}: the weight must have shape {size}, got {tuple(given.shape)}")
        self.weight = Parameter(given, requires_grad=requires_grad)

    def _row(self, padding_idx: int | None) -> int | None:
        """Return the padding index counted from the start."""
        n = self.num_embeddings
        if padding_idx is None:
            return None
        if not -n <= padding_idx < n:
            raise AssertionError(f"{type(self).__name__}: padding_idx must be one of {n} rows, got {padding_idx}")
        return padding_idx % n

    def reset_parameters(self) -> None:
        """Draw new values from the standard normal distribution; the padding row becomes zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


def _check_table(name: str, embeddings: Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise AssertionError(f"{name}.from_pretrained: a tensor of 2 dimensions is expected, got {embeddings.dim()}")
    return embeddings.shape[0], embeddings.shape[1]


class Embedding(_Table):
    """Look up one learned vector for each index.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of each vector.
        padding_idx: a row that starts as zero and is not trained.
        max_norm: longer vectors are scaled down to this norm when they are looked up, in place.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide gradients by how often the index occurs in the batch.
        sparse: accepted; gradients are dense.
        device: where the table lives.
        dtype: its element type.

    Attributes:
        weight: (num_embeddings, embedding_dim), drawn from the standard normal distribution.
    """

    __constants__ = [
        "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse",
    ]  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = self._row(padding_idx)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self._make_weight(_weight, not _freeze, device, dtype)
        self.sparse = sparse

    def forward(self, input: Tensor) -> Tensor:
        """Map indices (*) to vectors (*, embedding_dim)."""
        out: Tensor = F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )
        return out

    def extra_repr(self) -> str:
        """Return the sizes and what differs from the defaults."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse is not False:
            text += ", sparse=True"
        return text

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Return an Embedding on a given table, which is not trained unless `freeze` is False."""
        rows, cols = _check_table("Embedding", embeddings)
        return cls(
            rows,
            cols,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """Look up the vectors of a bag of indices and return their sum, mean or maximum.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of each vector.
        max_norm: longer vectors are scaled down to this norm when they are looked up, in place.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide gradients by how often the index occurs in the batch.
        mode: "sum", "mean" or "max".
        sparse: accepted; gradients are dense.
        include_last_offset: whether the last offset is the number of indices.
        padding_idx: a row that is left out of the bags.
        device: where the table lives.
        dtype: its element type.
    """

    __constants__ = [
        "num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse",
        "include_last_offset", "padding_idx",
    ]  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = self._row(padding_idx)
        self._make_weight(_weight, True, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(self, input: Tensor, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        """Map bags (B, N), or (N,) with the offset of each bag's first index, to (B, embedding_dim)."""
        out: Tensor = F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )
        return out

    def extra_repr(self) -> str:
        """Return the sizes and what differs from the defaults."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm!r}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type!r}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq!r}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx!r}"
        return text

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Return an EmbeddingBag on a given table, which is not trained unless `freeze` is False."""
        rows, cols = _check_table("EmbeddingBag", embeddings)
        made = cls(
            rows,
            cols,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        made.weight.requires_grad = not freeze
        return made
