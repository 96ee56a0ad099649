"""The law of forward mode over every differentiable op in the registry: ⟨J t, g⟩ = ⟨t, Jᵀ g⟩, complex included."""

from __future__ import annotations

import pytest

import sapwood  # noqa: F401 - declares the ops
from sapwood.errors import SapwoodError
from sapwood.ops.declare import derived, registry
from sapwood.testing import laws, transform_laws

DIFFERENTIABLE = [n for n in sorted(registry) if derived(registry[n])]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_forward(name):
    for sample in laws.samples(registry[name]):
        transform_laws.forward(registry[name], sample)


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if "c" in registry[n].dtypes])
def test_forward_of_complex_numbers(name):
    op = registry[name]
    for sample in laws.samples(op):
        turned = transform_laws.complex_sample(op, sample)
        try:
            laws.call(op, turned)
        except (SapwoodError, TypeError):
            # Some operands of such ops are real by nature (angles, weights, indices).
            continue
        transform_laws.forward(op, turned)


def test_the_law_notices_a_wrong_derivative():
    from sapwood.ops.softmaxes import softmax_of

    op = softmax_of.op
    right = op.jvp_input
    op.jvp_input = lambda t, out, dim: out * t
    try:
        with pytest.raises(AssertionError, match="softmax"):
            transform_laws.forward(op, laws.samples(op)[0])
    finally:
        op.jvp_input = right
