"""Event files that TensorBoard shows, written through tensorboardX, with PyTorch's names."""

from sapwood.utils.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]
