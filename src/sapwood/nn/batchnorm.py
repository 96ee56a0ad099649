"""Normalisation of channels with statistics of the batch or of the sample: `BatchNorm1d` … `InstanceNorm3d`."""

from __future__ import annotations

import warnings
from typing import Any

from .. import dtypes, ops
from ..tensor import Tensor
from . import functional as F
from .lazy import LazyModuleMixin
from .module import Module
from .normalization import _register_affine, _reset_affine
from .parameter import UninitializedBuffer, UninitializedParameter


class _NormBase(Module):
    """Factors and shifts per channel, and running statistics."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    _allowed: tuple[int, ...] = ()
    """Numbers of dimensions the input may have."""
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any
    weight: Any
    bias: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        _register_affine(self, (num_features,), affine, affine and bias, device, dtype)
        mean = var = seen = None
        if track_running_stats:
            mean = ops.zeros(num_features, device=device, dtype=dtype)
            var = ops.ones(num_features, device=device, dtype=dtype)
            seen = ops.tensor(0, dtype=dtypes.int64)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", seen)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set running means to 0, running variances to 1, and forget how many batches were seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set factors to 1, shifts to 0, and the running statistics to those of no data."""
        self.reset_running_stats()
        if self.affine:
            _reset_affine(self)

    def _check_input_dim(self, input: Tensor) -> None:
        if not self._allowed:
            raise NotImplementedError(f"{type(self).__name__}: define _check_input_dim(input)")
        if input.dim() not in self._allowed:
            wanted = " or ".join(map(str, self._allowed))
            raise ValueError(f"{type(self).__name__}: an input of {wanted} dimensions is expected, got {input.dim()}")

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing: Any,
        unexpected: Any,
        errors: Any,
    ) -> None:
        key = prefix + "num_batches_tracked"
        # States saved before version 2 do not count batches; they keep this module's count.
        if local_metadata.get("version", 1) < 2 and self.track_running_stats and key not in state_dict:
            known = self.num_batches_tracked
            state_dict[key] = ops.tensor(0, dtype=dtypes.int64) if known is None else known
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised (N, C, …)."""
        self._check_input_dim(input)
        training = self.training
        tracked = self.track_running_stats
        momentum = self.momentum
        factor = 0.0 if momentum is None else momentum
        if training and tracked and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        mean, var = (self.running_mean, self.running_var) if tracked or not training else (None, None)
        by_batch = training or (self.running_mean is None and self.running_var is None)
        out: Tensor = F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, factor, self.eps)
        return out


class BatchNorm1d(_BatchNorm):
    """Normalise the channels of (N, C) or (N, C, L) over the batch; the arguments are those of BatchNorm2d."""

    _allowed = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalise each channel of (N, C, H, W) over the batch, then scale and shift (arXiv:1502.03167).

    Args:
        num_features: channels of the input.
        eps: added to the variance.
        momentum: weight of the newest batch in the running statistics; None for the mean over all batches.
        affine: whether there are learned factors.
        track_running_stats: whether running statistics are kept, for use in evaluation.
        device: where the parameters live.
        dtype: their element type.
        bias: whether there are learned shifts too.
    """

    _allowed = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalise the channels of (N, C, D, H, W) over the batch; the arguments are those of BatchNorm2d."""

    _allowed = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm over the batches of all processes; in a single process, BatchNorm of any number of dimensions."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm: an input of 2 or more dimensions is expected, got {input.dim()}")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm: the input has no channels")

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """Return `module` with every BatchNorm in it replaced by a SyncBatchNorm on the same parameters."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                made.weight = module.weight
                made.bias = module.bias
            made.running_mean = module.running_mean
            made.running_var = module.running_var
            made.num_batches_tracked = module.num_batches_tracked
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        return self._allowed[0]

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised (N, C, …) or (C, …)."""
        self._check_input_dim(input)
        x: Any = input
        single = self._get_no_batch_dim()
        channels = input.size(input.dim() - single)
        if channels != self.num_features:
            text = f"{type(self).__name__}: the input has {channels} channels, num_features is {self.num_features}"
            if self.affine:
                raise ValueError(text)
            warnings.warn(f"{text}; without affine the number is not used", stacklevel=2)
        if input.dim() == single:
            return self._apply_instance_norm(x.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)

    def _apply_instance_norm(self, input: Tensor) -> Any:
        out: Any = F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing: Any,
        unexpected: Any,
        errors: Any,
    ) -> None:
        # Very old states hold running statistics that were never used.
        if local_metadata.get("version") is None and not self.track_running_stats:
            found = [prefix + n for n in ("running_mean", "running_var") if prefix + n in state_dict]
            if found:
                errors.append(
                    f"{', '.join(found)}: {type(self).__name__} has track_running_stats=False; remove these entries, "
                    "or make the module with track_running_stats=True"
                )
            for key in found:
                state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)


class InstanceNorm1d(_InstanceNorm):
    """Normalise each channel of each sample of (N, C, L) or (C, L); the arguments are those of BatchNorm2d."""

    _allowed = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalise each channel of each image of (N, C, H, W) or (C, H, W) (arXiv:1607.08022).

    The arguments are those of BatchNorm2d; `affine` and `track_running_stats` are off unless asked for.
    """

    _allowed = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalise each channel of each sample of (N, C, D, H, W) or (C, D, H, W)."""

    _allowed = (4, 5)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = ops.tensor(0, dtype=dtypes.int64)

    def reset_parameters(self) -> None:
        """Set the first values once the sizes are known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take `num_features` from the input."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for value in (self.weight, self.bias, self.running_mean, self.running_var):
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d that learns `num_features` from its first input."""

    _allowed = (2, 3)
    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d that learns `num_features` from its first input."""

    _allowed = (4,)
    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d that learns `num_features` from its first input."""

    _allowed = (5,)
    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that learns `num_features` from its first input."""

    _allowed = (2, 3)
    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that learns `num_features` from its first input."""

    _allowed = (3, 4)
    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that learns `num_features` from its first input."""

    _allowed = (4, 5)
    cls_to_become = InstanceNorm3d
