"""Sapwood: tensors, dynamic graphs and their pictures."""
