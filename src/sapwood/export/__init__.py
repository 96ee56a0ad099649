"""Captured graphs in the formats of other programs."""

from sapwood.export import netron, onnx

__all__ = ["netron", "onnx"]
