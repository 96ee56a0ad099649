"""The laws of kernels over every op that has one."""

from __future__ import annotations

import pytest

import sapwood
from sapwood.kernels import builtin
from sapwood.ops.declare import registry
from sapwood.testing import kernel_laws as laws
from sapwood.testing.sampling import samples

pytestmark = pytest.mark.skipif(not builtin.available(), reason=f"no kernels: {builtin.why_not()}")
sapwood.ops.complete()
KERNELS = [n for n in sorted(registry) if laws.has_kernel(registry[n])]
FORMULAS = [n for n in sorted(registry) if laws.has_formula(registry[n])]


def cases(op):
    return [v for s in samples(op) for v in laws.variants(op, s)]


@pytest.mark.parametrize("name", KERNELS)
def test_agrees(name):
    for sample in cases(registry[name]):
        laws.agrees(registry[name], sample)


@pytest.mark.parametrize("name", FORMULAS)
def test_follows(name):
    for sample in cases(registry[name]):
        laws.follows(registry[name], sample)


@pytest.mark.parametrize("name", KERNELS)
def test_alone(name):
    for sample in cases(registry[name])[-2:]:
        laws.alone(registry[name], sample)
