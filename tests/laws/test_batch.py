"""The laws of vmap over every op in the registry."""

from __future__ import annotations

import pytest

import sapwood  # noqa: F401 - declares the ops
from sapwood.ops.declare import derived, registry
from sapwood.testing import laws, transform_laws

OPS = sorted(registry)
DIFFERENTIABLE = [n for n in OPS if derived(registry[n])]


@pytest.mark.parametrize("name", OPS)
def test_batched(name):
    for sample in laws.samples(registry[name]):
        transform_laws.batched(registry[name], sample)


@pytest.mark.parametrize("name", OPS)
def test_nested(name):
    for sample in laws.samples(registry[name]):
        transform_laws.nested(registry[name], sample)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_batched_pullback(name):
    for sample in laws.samples(registry[name]):
        transform_laws.batched_pullback(registry[name], sample)


def test_the_law_notices_a_wrong_rule():
    from sapwood.func.batching import RULES

    right = RULES["permute"]
    RULES["permute"] = lambda op, size, xs, attrs: xs[0].value
    try:
        with pytest.raises(AssertionError, match="permute"):
            transform_laws.batched(registry["permute"], laws.samples(registry["permute"])[0])
    finally:
        RULES["permute"] = right
