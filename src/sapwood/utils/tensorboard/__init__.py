"""TensorBoard: `SummaryWriter` with PyTorch's names, on the package tensorboardX."""

from sapwood.utils.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]
