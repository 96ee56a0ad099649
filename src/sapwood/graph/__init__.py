"""Graphs as data: captured from a run, printed, read back, and run again."""

from sapwood.graph.archive import load, save
from sapwood.graph.capture import capture
from sapwood.graph.ir import Call, Graph, Line, Scope, Value
from sapwood.graph.run import run
from sapwood.graph.text import parse

__all__ = ["Call", "Graph", "Line", "Scope", "Value", "capture", "load", "parse", "run", "save"]
