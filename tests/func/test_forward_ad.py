"""Forward mode as autograd.forward_ad has it: levels, refusals, in-place writes, mixing with backward."""

from __future__ import annotations

import pytest

import sapwood
from sapwood.autograd import forward_ad, gradcheck, gradgradcheck
from sapwood.autograd.forward_ad import dual_level, make_dual, unpack_dual

X = sapwood.tensor([1.0, 2.0, 3.0], dtype=sapwood.float64)
T = sapwood.tensor([1.0, 0.0, -1.0], dtype=sapwood.float64)


def test_value_and_tangent():
    with dual_level():
        found = unpack_dual(make_dual(X, T) ** 2)
        assert found.primal.tolist() == [1, 4, 9] and found.tangent.tolist() == [2, 0, -6]
        assert unpack_dual(X * 2).tangent is None
        assert unpack_dual(make_dual(X, T).detach()).tangent is None


def test_a_level_that_ended_leaves_the_value():
    with dual_level():
        d = make_dual(X, T)
    assert unpack_dual(d).tangent is None and (d * 2).tolist() == [2, 4, 6]
    with dual_level():
        assert unpack_dual(d * 2).tangent is None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: make_dual(X, T[:2]), RuntimeError, "primal's shape"),
        (lambda: make_dual(sapwood.arange(3), T), ValueError, "primal must be floating-point"),
        (lambda: make_dual(X, sapwood.arange(3)), ValueError, "tangent must be floating-point"),
        (lambda: make_dual(make_dual(X, T), T), RuntimeError, "carries a tangent already"),
        (lambda: forward_ad.enter_dual_level(), RuntimeError, "does not nest"),
    ],
)
def test_refuses(call, error, text):
    with dual_level(), pytest.raises(error, match=text):
        call()


def test_refuses_outside_a_level():
    with pytest.raises(RuntimeError, match="forward mode is off"):
        make_dual(X, T)
    with pytest.raises(RuntimeError, match="enter_dual_level"):
        forward_ad.exit_dual_level()


def test_writing_a_dual_into_a_plain_tensor_makes_it_dual():
    with dual_level():
        out = sapwood.zeros(2, 3, dtype=sapwood.float64)
        out[0] = make_dual(X, T) * 2
        out *= 3
        assert unpack_dual(out).tangent.tolist() == [[6, 0, -6], [0, 0, 0]]
        out.zero_()
        assert unpack_dual(out).tangent.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_printed_form():
    with dual_level():
        assert repr(make_dual(X, T)).endswith("tangent=tensor([ 1.,  0., -1.], dtype=torch.float64))")
        assert repr((make_dual(X, T) * X).sum().float()) == "tensor(14., tangent=-2.0)"


def test_forward_over_reverse_and_reverse_over_forward():
    x = X.clone().requires_grad_()
    with dual_level():
        d = make_dual(x, T)
        (g,) = sapwood.autograd.grad((d**3).sum(), d, create_graph=True)
        assert unpack_dual(g).tangent.tolist() == (6 * X * T).tolist()
        moved = unpack_dual((d**3).sum()).tangent
    moved.backward()
    assert x.grad.tolist() == (6 * X * T).tolist()


def test_batched_gradients_in_one_pass():
    x = X.clone().requires_grad_()
    y = x * x
    eye = sapwood.eye(3, dtype=sapwood.float64)
    (rows,) = sapwood.autograd.grad(y, x, eye, is_grads_batched=True)
    assert rows.tolist() == sapwood.diag(2 * X).tolist() and not rows.requires_grad
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match=r"\(batch, \*"):
        sapwood.autograd.grad(x * x, x, eye[:, :2], is_grads_batched=True)


class Square(sapwood.autograd.Function):
    generate_vmap_rule = True
    factor = 2

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return 2 * t * ctx.saved_tensors[0]


class Wrong(Square):
    @staticmethod
    def jvp(ctx, t):
        return 3 * t * ctx.saved_tensors[0]


def test_gradcheck_checks_what_it_is_asked_to():
    x = X.clone().requires_grad_()
    assert gradcheck(Square.apply, x, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    assert gradgradcheck(Square.apply, x, check_fwd_over_rev=True, check_batched_grad=True)
    assert gradcheck(Wrong.apply, x)
    with pytest.raises(RuntimeError, match="forward mode is off by"):
        gradcheck(Wrong.apply, x, check_forward_ad=True)
    assert not gradcheck(Wrong.apply, x, check_forward_ad=True, raise_exception=False)


def test_a_function_without_rules_says_which_is_missing():
    class Plain(sapwood.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(NotImplementedError, match="static method jvp"):
        sapwood.func.jvp(Plain.apply, (X,), (T,))
    with pytest.raises(RuntimeError, match="generate_vmap_rule"):
        sapwood.func.vmap(Plain.apply)(X)


def test_pooling_without_a_graph_passes_its_tangent():
    x = sapwood.arange(16.0).reshape(1, 1, 4, 4)
    pool = lambda x: sapwood.nn.functional.max_pool2d(x, 2)
    _, tangent = sapwood.func.jvp(pool, (x,), (x * 2,))
    assert tangent.tolist() == (2 * pool(x)).tolist()
    assert sapwood.func.jacfwd(pool)(x).tolist() == sapwood.func.jacrev(pool)(x).tolist()
