"""A function that is being differentiated must not write to tensors that it captured, on whatever way it writes."""

from __future__ import annotations

import functools
import threading

import pytest

import sapwood
from sapwood import func

GLOBAL = sapwood.zeros(2)


def ones():
    return sapwood.ones(2)


WRITES = {
    "add": lambda c, x: c.add_(1),
    "operator": lambda c, x: c.__iadd__(1),
    "tracked": lambda c, x: c.add_(x),
    "copy": lambda c, x: c.copy_(x),
    "zero": lambda c, x: c.zero_(),
    "fill": lambda c, x: c.fill_(2),
    "item": lambda c, x: c.__setitem__(0, 1.0),
    "tracked item": lambda c, x: c.__setitem__(0, x[0]),
    "index": lambda c, x: c.index_put_((sapwood.tensor([0]),), sapwood.ones(1)),
    "view": lambda c, x: c.view(2, 1).add_(1),
    "part": lambda c, x: c[0].add_(1),
    "detached": lambda c, x: c.detach().add_(1),
    "data": lambda c, x: c.data.add_(1),
    "detached value": lambda c, x: c.add_(x.detach()),
    "no_grad": lambda c, x: sapwood.no_grad()(c.add_)(1),
    "random": lambda c, x: c.normal_(),
    "out": lambda c, x: sapwood.add(ones(), ones(), out=c),
}
TRANSFORMS = {
    "grad": lambda f: func.grad(f)(ones()),
    "grad_and_value": lambda f: func.grad_and_value(f)(ones()),
    "vjp": lambda f: func.vjp(f, ones()),
    "jvp": lambda f: func.jvp(f, (ones(),), (ones(),)),
    "jacrev": lambda f: func.jacrev(f)(ones()),
    "jacfwd": lambda f: func.jacfwd(f)(ones()),
    "hessian": lambda f: func.hessian(f)(ones()),
    "grad of grad": lambda f: func.grad(lambda x: func.grad(f)(x).sum())(ones()),
    "vmap of grad": lambda f: func.vmap(func.grad(f))(sapwood.ones(3, 2)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("write", WRITES)
def test_write_is_refused_before_it_happens(write, transform):
    c = sapwood.zeros(2)

    def f(x):
        WRITES[write](c, x)
        return (x * x).sum()

    # A vmap around may have its own reason against the write.
    with pytest.raises(RuntimeError, match=r"made outside the function|vmap"):
        TRANSFORMS[transform](f)
    assert c.tolist() == [0, 0]
    assert not c.requires_grad
    c.add_(1)  # afterwards it is an ordinary tensor
    assert c.tolist() == [1, 1]


@pytest.mark.parametrize("name", ["list", "dict", "default", "partial", "global", "helper", "argument of the outer"])
def test_wherever_it_was_taken_from(name):
    c = sapwood.zeros(2)
    held, table = [c], {"c": (c,)}

    def helper(x):
        return (c.add_(1) * x).sum()

    functions = {
        "list": lambda x: (held[0].add_(1) * x).sum(),
        "dict": lambda x: (table["c"][0].add_(1) * x).sum(),
        "default": lambda x, c=c: (c.add_(1) * x).sum(),
        "partial": functools.partial(lambda x, c: (c.add_(1) * x).sum(), c=c),
        "global": lambda x: (GLOBAL.add_(1) * x).sum(),
        "helper": lambda x: helper(x),
        "argument of the outer": lambda x: func.grad(lambda y: (x.add_(1) * y).sum())(ones()).sum(),
    }
    with pytest.raises(RuntimeError):
        func.grad(functions[name])(ones())
    assert c.tolist() == GLOBAL.tolist() == [0, 0]


def test_what_the_function_makes_or_gets_it_may_change():
    c = None
    made = []

    def f(x, given):
        nonlocal c
        c = sapwood.zeros(2)
        c.add_(x)
        made.append(sapwood.zeros(2))
        made[-1].copy_(x)
        made[-1][0] = 3.0
        given.add_(1)
        return (c * x).sum() + (made[-1] * given).sum()

    given = sapwood.zeros(2)
    assert func.grad(f)(ones(), given).tolist() == [2, 3]
    assert given.tolist() == [1, 1]


def test_linearize_vmap_and_autograd_functional_let_it():
    c = sapwood.zeros(2)

    def f(x):
        c.fill_(2)
        return (c * x).sum()

    assert func.linearize(f, ones())[0].item() == 4
    assert func.vmap(f)(sapwood.ones(3, 2)).tolist() == [4, 4, 4]
    assert sapwood.autograd.functional.jacobian(f, ones()).tolist() == [2, 2]


def test_other_threads_may_write_meanwhile():
    c = sapwood.zeros(2)

    def f(x):
        thread = threading.Thread(target=c.add_, args=(1,))
        thread.start()
        thread.join()
        return (c * x).sum()

    assert func.grad(f)(ones()).tolist() == [1, 1]
