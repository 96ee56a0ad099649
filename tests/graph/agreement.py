"""Captured programs beside the eager ones: the same results, writes and gradients under the same seed."""

from __future__ import annotations

import copy

import numpy as np

import sapwood
from sapwood import nn
from sapwood.errors import MissingError
from sapwood.graph import capture, parse, run
from sapwood.graph.ir import flatten


def tensors_in(thing):
    """Return the tensors of a nested structure."""
    found = []
    flatten(thing, found, lambda x: isinstance(x, sapwood.Tensor))
    return found


def identical(a, b):
    """Assert that two structures hold the same tensors to the last bit."""
    a, b = tensors_in(a), tensors_in(b)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert x.dtype is y.dtype
        assert np.array_equal(x.detach()._array, y.detach()._array, equal_nan=x.dtype.category >= 2)


def read_back(graph):
    """Return the graph read from its text, which must be the same graph."""
    again = parse(str(graph), {v.name: v.data for v in graph.sources() if v.data is not None})
    assert again == graph
    assert str(again) == str(graph)
    again.generators = graph.generators
    return again


def others(example, seed):
    """Return arguments like those of an example: other floats in the same shapes."""
    rng = np.random.default_rng(seed)

    def other(x):
        if not isinstance(x, sapwood.Tensor):
            return x
        a = x.detach()._array
        if a.dtype.kind != "f":
            return x.clone()
        values = np.asarray(rng.standard_normal(a.shape)).astype(a.dtype)
        return sapwood.from_numpy(values).requires_grad_(x.requires_grad)

    return tuple(map(other, example))


def agrees(program, *example):
    """Assert that the graph of a program does what the program does, twice in a row on other inputs; return it.

    Modules go on from state to state: what one run leaves in the buffers is what the next begins with.
    """
    eager = copy.deepcopy(program) if isinstance(program, nn.Module) else program
    sapwood.manual_seed(1)
    graph = capture(program, *others(example, 0))
    sapwood.manual_seed(1)
    eager(*others(example, 0))
    again = read_back(graph)
    for seed in (1, 2):
        given, same = others(example, seed), others(example, seed)
        sapwood.manual_seed(seed)
        got = run(again, *tensors_in(given), update=True)
        sapwood.manual_seed(seed)
        want = eager(*same)
        identical(got, want)
        identical(given, same)
        if isinstance(program, nn.Module):
            identical(program.state_dict(), eager.state_dict())
            gradients_agree(got, want, list(program.parameters()), list(eager.parameters()))
        gradients_agree(got, want, tensors_in(given), tensors_in(same))
    return graph


def gradients_agree(got, want, given, same):
    """Assert that gradients of two results by two lists of leaves are the same."""
    made = [[t for t in tensors_in(r) if t.requires_grad and not t.is_leaf] for r in (got, want)]
    leaves = [[t for t in g if t.requires_grad and t.is_leaf] for g in (given, same)]
    assert [t.requires_grad for t in tensors_in(got)] == [t.requires_grad for t in tensors_in(want)]
    if not made[1] or not leaves[1]:
        return

    def gradients(made, leaves):
        try:
            return sapwood.autograd.grad([t.abs().sum() for t in made], leaves, allow_unused=True, retain_graph=True)
        except MissingError:
            return None

    a, b = map(gradients, made, leaves)
    assert (a is None) == (b is None)
    if a is None:
        return
    for x, y in zip(a, b):
        assert (x is None) == (y is None)
        assert x is None or sapwood.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True)
