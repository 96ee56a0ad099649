"""Captured graphs in the formats of other programs."""

from sapwood.export import onnx

__all__ = ["onnx"]
