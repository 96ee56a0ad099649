"""Functions of neural networks: `torch.nn.functional`'s names over the ops."""

from __future__ import annotations

from ..ops.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    fold,
    unfold,
)

# Activations, normalisation, dropout, resampling, losses.
from . import functional_activation, functional_layers, functional_loss
from .functional_activation import *
from .functional_layers import *
from .functional_loss import *

__all__ = [
    *functional_activation.__all__,
    *functional_layers.__all__,
    *functional_loss.__all__,
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]
