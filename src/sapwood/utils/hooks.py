"""Handles of hooks, under the name that PyTorch programs import them by."""

from __future__ import annotations

from ..hook import RemovableHandle

__all__ = ["RemovableHandle"]
