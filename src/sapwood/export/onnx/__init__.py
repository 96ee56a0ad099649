"""Export to ONNX: captured graphs as models that other runtimes and viewers read."""

from sapwood.export.onnx.model import export

__all__ = ["export"]
