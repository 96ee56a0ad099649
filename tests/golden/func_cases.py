"""Programs of transforms whose results are compared with PyTorch's.

Each takes the package under test and its parts from the surrounding function, and returns nests of tensors.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def programs(package: Any) -> dict[str, Callable[[], Any]]:
    """Return the programs by name, bound to a package with PyTorch's names."""
    S, F, nn = package, importlib.import_module(package.__name__ + ".func"), package.nn
    NF = importlib.import_module(package.__name__ + ".nn.functional")
    fwAD = importlib.import_module(package.__name__ + ".autograd.forward_ad")
    A = importlib.import_module(package.__name__ + ".autograd.functional")
    found: dict[str, Callable[[], Any]] = {}
    walk = [0]

    def program(f: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            walk[0] = 0
            S.manual_seed(0)
            before = S.get_default_dtype()
            S.set_default_dtype(S.float64)
            try:
                return f()
            finally:
                S.set_default_dtype(before)

        found[f.__name__] = run
        return f

    def T(*shape: int) -> Any:
        """Return a tensor of values without order, none twice; every call goes on where the last one ended."""
        n = 1
        for s in shape:
            n *= s
        start, walk[0] = walk[0], walk[0] + n
        return S.tensor([(k * 577 + 11) % 1009 / 512 - 0.97 for k in range(start, start + n)]).reshape(shape)

    def mlp(p, x):
        for i in range(2):
            x = S.tanh(x @ p[f"w{i}"] + p[f"b{i}"])
        return (x @ p["wo"]).squeeze(-1)

    def params():
        return {"w0": T(4, 5), "b0": T(5), "w1": T(5, 5), "b1": T(5), "wo": T(5, 1)}

    @program
    def per_sample():
        p = params()
        X = T(7, 4)
        Y = T(7)
        return F.vmap(F.grad(lambda p, x, y: ((mlp(p, x) - y) ** 2).sum()), in_dims=(None, 0, 0))(p, X, Y)

    @program
    def per_sample_batch1():
        p = params()
        X = T(7, 4)
        Y = T(7)
        return F.vmap(
            F.grad(lambda p, x, y: NF.mse_loss(mlp(p, x.unsqueeze(0)), y.unsqueeze(0))), in_dims=(None, 0, 0)
        )(p, X, Y)

    @program
    def hess_mlp():
        p = params()
        return F.hessian(lambda x: mlp(p, x))(T(4))

    @program
    def hess_params():
        p = params()
        x = T(4)
        return F.hessian(lambda p: mlp(p, x))(p)

    @program
    def vhess():
        p = params()
        return F.vmap(F.hessian(lambda x: mlp(p, x)))(T(3, 4))

    @program
    def fr():
        return F.jacfwd(F.jacfwd(lambda x: (x**3).prod()))(T(3))

    @program
    def rf():
        return F.jacrev(F.jacfwd(lambda x: (x**3).prod()))(T(3))

    @program
    def rr():
        return F.jacrev(F.jacrev(lambda x: (x**3).sin().prod()))(T(3))

    @program
    def fff():
        return F.jacfwd(F.jacfwd(F.jacfwd(lambda x: (x.sin() * x.exp()).prod())))(T(3))

    @program
    def rrr():
        return F.jacrev(F.jacrev(F.jacrev(lambda x: (x.sin() * x.exp()).prod())))(T(3))

    @program
    def frf():
        return F.jacfwd(F.jacrev(F.jacfwd(lambda x: (x.sin() * x.exp()).cumsum(0))))(T(3))

    @program
    def hvp():
        x, v = T(4), T(4)
        f = lambda x: (x.sin() ** 2).sum() * x.prod()
        return F.jvp(F.grad(f), (x,), (v,)), F.vjp(F.grad(f), x)[1](v), F.grad(lambda x: F.jvp(f, (x,), (v,))[1])(x)

    @program
    def lin():
        x, v = T(4), T(4)
        o, f = F.linearize(lambda x: x.sin() * x.sum(), x)
        return o, f(v), F.vmap(f)(T(3, 4))

    @program
    def vmap_nested():
        return F.vmap(F.vmap(lambda x, y: S.outer(x, y), in_dims=(None, 0)), in_dims=(0, None))(T(2, 3), T(4, 5))

    @program
    def vmap_dims():
        return F.vmap(lambda a, b: (a @ b, a.sum()), in_dims=(1, 2), out_dims=(1, 0))(T(3, 5, 4), T(4, 2, 5))

    @program
    def vmap_tree():
        return F.vmap(lambda d, e: {"o": d["a"] * e[0], "p": (e[1],)}, in_dims=({"a": 0}, [None, 1]))(
            {"a": T(3, 2)}, [T(2), T(2, 3)]
        )

    @program
    def vmap_chunk():
        return F.vmap(lambda x: x.sin().sum(0), chunk_size=2, out_dims=1)(T(5, 3, 2))

    @program
    def jac_chunk():
        return F.jacrev(lambda x: x.sin() * x.sum(), chunk_size=2)(T(5))

    @program
    def jac_multi():
        return F.jacrev(lambda x, y: (x @ y, {"s": x.sum() * y}), argnums=(0, 1))(T(2, 3), T(3))

    @program
    def jacf_multi():
        return F.jacfwd(lambda x, y: (x @ y, {"s": x.sum() * y}), argnums=(0, 1))(T(2, 3), T(3))

    @program
    def jac_aux():
        return F.jacrev(lambda x: (x * x, x.sum()), has_aux=True)(T(3)), F.jacfwd(
            lambda x: (x * x, x.sum()), has_aux=True
        )(T(3))

    @program
    def complexjac():
        z = S.tensor([1 + 2j, 0.5 - 1j], dtype=S.complex128)
        return (
            F.vjp(lambda z: z * z.conj() * z.exp(), z)[1](z),
            F.jvp(lambda z: z * z.conj() * z.exp(), (z,), (z,)),
            F.jvp(lambda z: z.abs(), (z,), (z,)),
        )

    @program
    def convmodel():
        m = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4))
        p = {k: v.detach() for k, v in m.named_parameters()}
        X = T(5, 2, 6, 6)
        Y = S.tensor([0, 1, 2, 3, 1])

        def loss(p, x, y):
            return NF.cross_entropy(F.functional_call(m, p, (x.unsqueeze(0),)), y.unsqueeze(0))

        return F.vmap(F.grad(loss), in_dims=(None, 0, 0))(p, X, Y)

    @program
    def ensemble():
        ms = [nn.Linear(3, 2) for _ in range(4)]
        p, _ = F.stack_module_state(ms)
        base = ms[0]
        X = T(6, 3)
        return p, F.vmap(lambda p, x: F.functional_call(base, p, (x,)), in_dims=(0, None))(p, X)

    @program
    def jvp_module():
        m = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2))
        p = {k: v.detach() for k, v in m.named_parameters()}
        t = {k: S.ones_like(v) for k, v in p.items()}
        x = T(2, 3)
        return F.jvp(lambda p: F.functional_call(m, p, (x,)), (p,), (t,))

    @program
    def jac_module():
        m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Softmax(-1))
        x = T(5, 3)
        return F.jacrev(m)(x), F.jacfwd(m)(x)

    @program
    def attn():
        m = nn.MultiheadAttention(4, 2, batch_first=True)
        x = T(2, 3, 4)
        return F.jacrev(lambda x: m(x, x, x)[0])(x), F.vmap(lambda x: m(x, x, x)[0])(T(2, 2, 3, 4))

    @program
    def grad_requires():
        w = T(3).requires_grad_()
        g = F.grad(lambda x: (x * x * w).sum())(T(3))
        g.sum().backward()
        return g, w.grad

    @program
    def grad_requires2():
        x = T(3).requires_grad_()
        g = F.grad(lambda x: (x**3).sum())(x)
        g.sum().backward()
        return g, x.grad

    @program
    def inner_nograd():
        def f(x):
            with S.no_grad():
                c = x * x
            return (x * c).sum()

        return F.grad(f)(T(3))

    @program
    def outer_nograd():
        with S.no_grad():
            return F.grad(lambda x: (x * x).sum())(T(3)), F.vmap(F.grad(lambda x: (x * x).sum()))(T(3, 2))

    @program
    def idx0():
        return F.vmap(lambda x, i: x[i])(T(3, 4), S.tensor([0, 3, 1]))

    @program
    def idx1():
        return F.vmap(lambda x, i: x[:, i], in_dims=(None, 0))(T(3, 4), S.tensor([[0, 3], [1, 2]]))

    @program
    def setidx():
        def f(x):
            y = x.clone()
            y[0] = x[1] * 2
            y[S.tensor([2])] = 7.0
            return y

        return F.vmap(f)(T(3, 4)), F.vmap(F.grad(lambda x: (f(x) ** 2).sum()))(T(3, 4)), F.jvp(f, (T(4),), (T(4),))

    @program
    def inplace_zeros():
        def f(x):
            y = S.zeros_like(x)
            y[1] = x.sum()
            y += x
            return y

        return F.vmap(f)(T(3, 4))

    @program
    def newzeros():
        def f(x):
            y = x.new_zeros(2)
            y[1] = x.sum()
            return y

        return F.vmap(f)(T(3, 4)), F.jvp(f, (T(4),), (T(4),))

    @program
    def inplace_bad():
        return F.vmap(lambda x, y: y.add_(x), in_dims=(0, None))(T(3, 4), T(4))

    @program
    def promote0():
        return F.vmap(lambda a, b: a * b)(S.ones(3, dtype=S.float64), S.ones(3, 4, dtype=S.float32))

    @program
    def reductions():
        x = T(3, 4, 5)
        return F.vmap(
            lambda x: (
                x.max(),
                x.min(1),
                x.argmax(),
                x.argmax(0),
                x.std(),
                x.var(0),
                x.median(),
                x.prod(),
                x.norm(),
                x.logsumexp(0),
                x.any(),
                x.all(1),
                x.sort(0)[0],
                x.topk(2)[1],
                x.cumsum(-1),
                x.count_nonzero(),
                x.sum((0, 1)),
                x.amax((0, 1), keepdim=True),
            )
        )(x)

    @program
    def views():
        return F.vmap(
            lambda x: (
                x.T,
                x.reshape(-1),
                x.view(2, -1),
                x.flatten(),
                x.squeeze(),
                x.unsqueeze(-1),
                x.expand(3, 2, 6),
                x.permute(1, 0),
                x.transpose(0, 1),
                x.chunk(2, 1),
                x.unbind(),
                x.diagonal(),
                x.flip(0),
                x.roll(1, 0),
                x.tril(),
                x.repeat(2, 1),
                x.movedim(0, 1),
                x[None],
                x[..., 1:3],
                x.split(4, 1)[1],
                S.cat([x, x]),
                S.stack([x, x], -1),
                x.contiguous(),
                x.unfold(1, 2, 2),
            )
        )(T(3, 2, 6))

    @program
    def views_t():
        return F.vmap(lambda x: (x.reshape(-1), x.view_as(x), x.contiguous().view(-1), x.T.reshape(3, -1)), in_dims=2)(
            T(3, 2, 6)
        )

    @program
    def viewfail():
        return F.vmap(lambda x: x.T.view(-1))(T(3, 2, 6))

    @program
    def where():
        return F.vmap(lambda x: S.where(x > 0, x, -x))(T(3)), F.vmap(lambda x, m: x.masked_fill(m, 0.0))(
            T(3, 2), S.tensor([[True, False]] * 3)
        )

    @program
    def matmuls():
        return F.vmap(
            lambda a, b, v: (
                a @ b,
                a @ v,
                v @ b,
                v @ v,
                S.dot(v, v),
                S.mv(a, v),
                S.mm(a, b),
                S.outer(v, v),
                S.einsum("ij,jk->ik", a, b),
                S.addmm(a, a, b),
                S.addmv(v, a, v),
                S.nn.functional.linear(v, a, v) if hasattr(S, "nn") else 0,
            )
        )(T(2, 3, 3), T(2, 3, 3), T(2, 3))

    @program
    def matmul_mixed():
        a, b, v = T(3, 4), T(5, 4, 2), T(5, 4)
        return (
            F.vmap(lambda b: a @ b)(b),
            F.vmap(lambda v: a @ v)(v),
            F.vmap(lambda v: v @ a.T)(v),
            F.vmap(lambda v: v @ a[0])(v),
            F.vmap(lambda b: a[0] @ b)(b),
            F.vmap(lambda b: T(2, 3, 4) @ b)(b),
        )

    @program
    def fwad():
        with fwAD.dual_level():
            x = fwAD.make_dual(T(3), T(3))
            y = x.sin() * x + x.sum()
            z = S.zeros(2, 3)
            z[0] = y
            p, t = fwAD.unpack_dual(y)
            return (
                p,
                t,
                fwAD.unpack_dual(z).tangent,
                fwAD.unpack_dual(x.detach()).tangent,
                fwAD.unpack_dual(T(3)).tangent,
            )

    @program
    def fwad_over_rev():
        p = T(3).requires_grad_()
        with fwAD.dual_level():
            d = fwAD.make_dual(p, T(3))
            y = (d**3).sum()
            (g,) = S.autograd.grad(y, d, create_graph=True)
            return fwAD.unpack_dual(g)

    @program
    def rev_over_fwad():
        p = T(3).requires_grad_()
        with fwAD.dual_level():
            d = fwAD.make_dual(p, T(3))
            y = (d**3).sum()
            t = fwAD.unpack_dual(y).tangent
        t.backward()
        return t.detach(), p.grad

    @program
    def batched_grads():
        x = T(3).requires_grad_()
        y = x.sin() * x.sum()
        return S.autograd.grad(y, x, S.eye(3), is_grads_batched=True)

    @program
    def batched_grads2():
        x = T(3).requires_grad_()
        y = x.sin() * x.sum()
        (g,) = S.autograd.grad(y, x, S.eye(3), is_grads_batched=True, create_graph=True)
        g.sum().backward()
        return g, x.grad

    @program
    def vmap_autograd_grad():
        x = T(3).requires_grad_()
        y = x.sin() * x.sum()
        return F.vmap(lambda v: S.autograd.grad(y, x, v, retain_graph=True)[0])(S.eye(3))

    @program
    def rand_same():
        S.manual_seed(3)
        return F.vmap(lambda x: x + S.rand(2), randomness="same")(S.zeros(3, 2))

    @program
    def rand_diff():
        S.manual_seed(3)
        return F.vmap(lambda x: x + S.randn(2), randomness="different")(S.zeros(3, 2))

    @program
    def rand_like_diff():
        S.manual_seed(3)
        return F.vmap(lambda x: S.rand_like(x), randomness="different")(S.zeros(3, 2))

    @program
    def rand_err():
        return F.vmap(lambda x: x + S.rand(2))(S.zeros(3, 2))

    @program
    def drop_err():
        return F.vmap(lambda x: NF.dropout(x, 0.5))(S.zeros(3, 2))

    @program
    def drop_eval():
        return F.vmap(lambda x: NF.dropout(x, 0.5, training=False))(S.ones(3, 2))

    @program
    def func_custom():
        class Sq(S.autograd.Function):
            generate_vmap_rule = True

            @staticmethod
            def forward(x):
                return x * x

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(inputs[0])
                ctx.save_for_forward(inputs[0])

            @staticmethod
            def backward(ctx, g):
                return g * 2 * ctx.saved_tensors[0]

            @staticmethod
            def jvp(ctx, t):
                return t * 2 * ctx.saved_tensors[0]

        f = lambda x: Sq.apply(x).sum()
        x = T(3, 2)
        return (
            F.grad(f)(x),
            F.vmap(Sq.apply)(x),
            F.vmap(F.grad(f))(x),
            F.jvp(Sq.apply, (x,), (x,)),
            F.grad(lambda x: F.vmap(Sq.apply)(x).sum())(x),
            F.jacrev(Sq.apply)(x[0]),
            F.jacfwd(Sq.apply)(x[0]),
            F.hessian(f)(x[0]),
        )

    @program
    def func_custom_vmap():
        class Sq(S.autograd.Function):
            @staticmethod
            def forward(x, k):
                return x * k

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.k = inputs[1]

            @staticmethod
            def backward(ctx, g):
                return g * ctx.k, None

            @staticmethod
            def vmap(info, in_dims, x, k):
                assert info.batch_size == 3 and in_dims == (0, None)
                return Sq.apply(x, k), 0

        x = T(3, 2)
        return F.vmap(lambda x: Sq.apply(x, 3))(x), F.vmap(F.grad(lambda x: Sq.apply(x, 3).sum()))(x)

    @program
    def func_custom_novmap():
        class Sq(S.autograd.Function):
            @staticmethod
            def forward(x):
                return x * x

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, g):
                return g

        return F.vmap(Sq.apply)(T(3))

    @program
    def func_custom_nojvp():
        class Sq(S.autograd.Function):
            @staticmethod
            def forward(x):
                return x * x

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, g):
                return g

        return F.jvp(Sq.apply, (T(3),), (T(3),))

    @program
    def tied():
        class M(nn.Module):
            def __init__(s):
                super().__init__()
                s.a = nn.Linear(3, 3, bias=False)
                s.b = nn.Linear(3, 3, bias=False)
                s.b.weight = s.a.weight

            def forward(s, x):
                return s.b(s.a(x))

        m = M()
        x = T(2, 3)
        w = T(3, 3)
        return (
            F.functional_call(m, {"a.weight": w}, x),
            F.functional_call(m, {"a.weight": w}, x, tie_weights=False),
            F.functional_call(m, ({"a.weight": w}, {}), x),
        )

    @program
    def tied_bad():
        class M(nn.Module):
            def __init__(s):
                super().__init__()
                s.a = nn.Linear(3, 3, bias=False)
                s.b = nn.Linear(3, 3, bias=False)
                s.b.weight = s.a.weight

            def forward(s, x):
                return s.b(s.a(x))

        return F.functional_call(M(), {"a.weight": T(3, 3), "b.weight": T(3, 3)}, T(2, 3))

    @program
    def fc_strict():
        return F.functional_call(nn.Linear(3, 2), {"weight": T(2, 3)}, T(2, 3), strict=True)

    @program
    def fc_unknown():
        return F.functional_call(nn.Linear(3, 2), {"foo": T(2, 3)}, T(2, 3))

    @program
    def fc_dup():
        return F.functional_call(nn.Linear(3, 2), ({"weight": T(2, 3)}, {"weight": T(2, 3)}), T(2, 3))

    @program
    def losses():
        x, y = T(4, 3), T(4, 3)
        c = S.tensor([0, 2, 1, 1])
        return F.vmap(
            lambda x, y, c: (
                NF.mse_loss(x, y),
                NF.l1_loss(x, y),
                NF.smooth_l1_loss(x, y),
                NF.binary_cross_entropy_with_logits(x, y.sigmoid()),
                NF.cross_entropy(x, c),
                NF.nll_loss(x, c),
                NF.kl_div(x, y.softmax(0)),
                NF.cosine_similarity(x, y, 0),
                NF.huber_loss(x, y),
                NF.softmax(x, 0),
                NF.log_softmax(x, 0),
                NF.layer_norm(x, (3,)),
                NF.gelu(x),
                NF.one_hot(c, 3),
            )
        )(x, y, c)

    @program
    def images():
        w = T(3, 2, 3, 3)
        x = T(4, 1, 2, 6, 6)
        return F.vmap(
            lambda x: (
                NF.conv2d(x, w),
                NF.conv2d(x[0], w),
                NF.max_pool2d(x, 2),
                NF.avg_pool2d(x, 2),
                NF.adaptive_avg_pool2d(x, 2),
                NF.interpolate(x, scale_factor=2),
                NF.pad(x, (1, 1)),
                NF.unfold(x, 2),
                NF.conv_transpose2d(x, w.transpose(0, 1)),
                NF.group_norm(x, 2),
                NF.pixel_unshuffle(x, 2),
            )
        )(x)

    @program
    def convw():
        w = T(4, 3, 2, 3, 3)
        x = T(1, 2, 6, 6)
        b = T(4, 3)
        return (
            F.vmap(lambda w, b: NF.conv2d(x, w, b, stride=2, padding=1))(w, b),
            F.vmap(lambda w: NF.conv_transpose2d(x, w.transpose(0, 1)))(w),
            F.vmap(F.grad(lambda w, x: NF.conv2d(x, w).sin().sum()), in_dims=(0, None))(w, x),
            F.vmap(F.grad(lambda w, x: NF.conv2d(x, w).sin().sum()), in_dims=(None, 0))(w[0], T(4, 2, 6, 6)),
        )

    @program
    def embed():
        w = T(5, 3)
        i = S.tensor([[0, 1], [1, 4], [2, 2]])
        return F.vmap(F.grad(lambda w, i: NF.embedding(i, w, padding_idx=1).sin().sum()), in_dims=(None, 0))(
            w, i
        ), F.vmap(lambda i: NF.embedding(i, w))(i)

    @program
    def kw():
        return F.vmap(lambda x, y=None: x * y)(T(3, 2), y=T(3, 2))

    @program
    def vjp_multi():
        o, f = F.vjp(lambda x, y: {"a": x * y, "b": (x.sum(),)}, T(3), T(3))
        return o, f({"a": S.ones(3), "b": (S.ones(()),)})

    @program
    def vjp_vmap():
        x = T(3)
        _, f = F.vjp(lambda x: x.sin() * x.sum(), x)
        return F.vmap(f)(S.eye(3))

    @program
    def vmap_of_closure_grad():
        w = T(3, 3)
        return F.vmap(lambda x: F.grad(lambda w: ((w @ x) ** 2).sum())(w))(T(5, 3))

    @program
    def grad_of_vmap():
        w = T(3, 3)
        X = T(5, 3)
        return F.grad(lambda w: F.vmap(lambda x: ((w @ x) ** 2).sum())(X).sum())(w)

    @program
    def vmap_grad_constant():
        return F.vmap(F.grad(lambda x: S.ones(()).sum()))(T(3))

    @program
    def grad_const():
        return F.grad(lambda x: S.ones(()).sum())(T(3))

    @program
    def ggv():
        return F.vmap(F.grad_and_value(lambda x: ((x * x).sum(), x * 2), has_aux=True))(T(3, 2))

    @program
    def maml():
        w = T(3)
        X = T(4, 5, 3)
        Y = T(4, 5)

        def loss(w, x, y):
            return ((x @ w - y) ** 2).mean()

        def inner(w, x, y):
            return loss(w - 0.1 * F.grad(loss)(w, x, y), x, y)

        return F.grad(lambda w: F.vmap(inner, in_dims=(None, 0, 0))(w, X, Y).mean())(w), F.vmap(
            F.grad(inner), in_dims=(None, 0, 0)
        )(w, X, Y)

    @program
    def ntk():
        p = params()
        X = T(4, 4)
        J = F.vmap(F.jacrev(lambda p, x: mlp(p, x)), (None, 0))(p, X)
        return S.einsum("nij,mij->nm", J["w0"], J["w0"])

    @program
    def jac_of_vmap():
        return F.jacfwd(F.vmap(lambda x: x.sin().sum()))(T(3, 2)), F.jacrev(F.vmap(lambda x: x.sin().sum()))(T(3, 2))

    @program
    def functional_ad():
        x = T(3)
        f = lambda x: (x**3).sum()
        g = lambda x, y: (x * y, x.sum())
        return (
            A.jacobian(g, (x, x)),
            A.hessian(f, x),
            A.hessian(lambda x, y: (x * y * y).sum(), (x, x)),
            A.vjp(g, (x, x), (x, S.ones(()))),
            A.jvp(g, (x, x), (x, x)),
            A.hvp(f, x, x),
            A.vhp(f, x, x),
            A.jacobian(lambda x: x**3, x, vectorize=True),
            A.jacobian(lambda x: x**3, x, strategy="forward-mode", vectorize=True),
            A.hessian(f, x, vectorize=True, outer_jacobian_strategy="forward-mode").detach(),
        )

    @program
    def functional_cg():
        x = T(3).requires_grad_()
        J = A.jacobian(lambda x: x**3, x, create_graph=True)
        J.sum().backward()
        return J, x.grad, A.jacobian(lambda x: x**3, x)

    @program
    def f_strict():
        return A.jacobian(lambda x: S.ones(1), T(3), strict=True)

    @program
    def f_indep():
        return A.jacobian(lambda x: S.ones(1), T(3))

    @program
    def f_hess_scalar():
        return A.hessian(lambda x: x, T(3))

    @program
    def f_vjp_v():
        return A.vjp(lambda x: x, T(3))

    @program
    def f_strict_vec():
        return A.jacobian(lambda x: x, T(3), strict=True, vectorize=True)

    @program
    def f_strat():
        return A.jacobian(lambda x: x, T(3), strategy="forward-mode")

    @program
    def f_strat2():
        return A.jacobian(lambda x: x, T(3), strategy="foo")

    @program
    def f_vshape():
        return A.jvp(lambda x: x, T(3), T(4))

    @program
    def f_nontensor():
        return A.jacobian(lambda x: 3.0, T(3))

    @program
    def f_hs():
        return A.hessian(lambda x: x.sum(), T(3), strict=True)

    @program
    def f_hvps():
        return A.hvp(lambda x: x.sum(), T(3), T(3)), A.vhp(lambda x: x.sum(), T(3), T(3))

    @program
    def topvmap():
        return S.vmap(lambda x: x * 2)(T(3))

    @program
    def ip1():
        return F.jvp(lambda x: x.clone().mul_(x).add_(1), (T(3),), (T(3),)), F.grad(
            lambda x: x.clone().mul_(x).add_(1).sum()
        )(T(3))

    @program
    def ip2():
        def f(x):
            y = S.zeros(3, 3)
            for i in range(3):
                y[i, :] = x * x[i]
            return y.sum(0)

        return F.jvp(f, (T(3),), (T(3),)), F.jacrev(f)(T(3)), F.grad(lambda x: f(x).sum())(T(3))

    @program
    def bn():
        m = nn.BatchNorm1d(3).eval()
        x = T(4, 3)
        return F.jacrev(m)(x), F.jacfwd(m)(x), F.vmap(m)(T(2, 4, 3))

    @program
    def bn_train():
        m = nn.BatchNorm1d(3)
        return F.vmap(m)(T(2, 4, 3))

    @program
    def vj():
        return F.vmap(lambda x: F.jvp(lambda y: y.sin() * x, (x,), (x * 2,)))(T(4, 3))

    @program
    def jvv():
        x = T(3)
        return F.jvp(lambda x: F.vmap(lambda s: (s * x).sin().sum())(S.arange(4.0, dtype=S.float64)), (x,), (x,))

    @program
    def gvj():
        return F.grad(lambda x: F.vmap(lambda v: F.jvp(lambda y: (y**3).sum(), (x,), (v,))[1])(S.eye(3)).sum())(T(3))

    @program
    def lap():
        f = lambda x: (x.sin() * x.exp()).prod()
        return F.vmap(lambda x: S.trace(F.hessian(f)(x)))(T(4, 3)), F.vmap(F.grad(lambda x: S.trace(F.hessian(f)(x))))(
            T(4, 3)
        )

    @program
    def sortmax():
        return (
            F.jacfwd(lambda x: (x.sort()[0], x.max(), x.topk(2)[0], x.cummax(0)[0], x.amax()))(T(4)),
            F.hessian(lambda x: x.softmax(0).log().sum())(T(4)),
            F.jacfwd(lambda x: x.std() + x.var() + x.norm() + S.logsumexp(x, 0))(T(4)),
        )

    @program
    def linalg():
        return (
            F.jacfwd(lambda a: S.einsum("ij,jk->ik", a, a))(T(2, 2)),
            F.hessian(lambda a: (a @ a).sum())(T(2, 2)),
            F.vmap(F.jacrev(lambda a: a @ a.T))(T(3, 2, 2)),
        )

    @program
    def conv_h():
        w = T(2, 1, 2)
        return (
            F.hessian(lambda w: NF.conv1d(S.ones(1, 1, 4), w).sin().sum())(w),
            F.jacfwd(lambda x: NF.conv1d(x, w, padding=1))(T(1, 1, 4)),
            F.jacrev(lambda w: NF.conv1d(S.ones(1, 1, 4), w))(w),
        )

    @program
    def pools():
        return (
            F.jacfwd(lambda x: NF.max_pool2d(x, 2))(T(1, 1, 4, 4)),
            F.jacrev(lambda x: NF.avg_pool2d(x, 2))(T(1, 1, 4, 4)),
            F.jacfwd(lambda x: NF.interpolate(x, scale_factor=2, mode="bilinear"))(T(1, 1, 3, 3)),
        )

    @program
    def ce_h():
        y = S.tensor([0, 2])
        return (
            F.hessian(lambda x: NF.cross_entropy(x, y))(T(2, 3)),
            F.jacfwd(lambda x: NF.mse_loss(x, x * x))(T(3)),
            F.jacfwd(lambda x: NF.binary_cross_entropy_with_logits(x, S.ones(3)))(T(3)),
        )

    @program
    def train_step():
        m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        p = {k: T(*v.shape) for k, v in m.named_parameters()}
        X, Y = T(5, 3), T(5, 1)
        loss = lambda p: NF.mse_loss(F.functional_call(m, p, (X,)), Y)
        for _ in range(3):
            g, value = F.grad_and_value(loss)(p)
            p = {k: p[k] - 0.1 * g[k] for k in p}
        return p, value

    @program
    def ens_train():
        ms = [nn.Linear(3, 1) for _ in range(3)]
        p, _ = F.stack_module_state(ms)
        X, Y = T(5, 3), T(5, 1)
        p = {k: v.detach() for k, v in p.items()}
        return F.vmap(F.grad_and_value(lambda p: NF.mse_loss(F.functional_call(ms[0], p, (X,)), Y)))(p)

    @program
    def stackdict():
        return F.vmap(lambda x: S.stack([x.sum(), x.prod(), S.ones(())]))(T(3, 2))

    @program
    def where_scalar():
        return F.vmap(lambda x, m: S.where(m, x, 0.0))(T(3, 2), S.tensor([True, False, True]))

    @program
    def gatherscatter():
        i = S.tensor([[0, 1], [2, 0], [1, 1]])
        return F.vmap(
            lambda x, i: (
                x.gather(0, i),
                S.zeros(3).scatter_add(0, i, x[:2]),
                x.index_select(0, i),
                x.take(i),
                S.index_select(x, 0, i),
            )
        )(T(3, 3), i)

    @program
    def idxput():
        def f(x, i):
            y = x.clone()
            y[i] = 0.0
            y[i, ...] += 1
            return y

        return F.vmap(f)(T(3, 4), S.tensor([[0, 1], [2, 0], [1, 3]]))

    @program
    def cumgrad():
        return F.vmap(F.grad(lambda x: (x.cumsum(0) ** 2).cumprod(0).sum()))(T(3, 4))

    @program
    def complex_v():
        z = S.complex(T(3, 2), T(3, 2))
        return F.vmap(lambda z: (z.abs(), z.real, z * z.conj(), S.view_as_real(z), z.sum()))(z), F.vmap(
            F.grad(lambda z: z.abs().sum())
        )(z)

    @program
    def rm():
        S.manual_seed(1)
        return (
            F.vmap(lambda x: NF.dropout(x, 0.5), randomness="different")(S.ones(3, 20)).shape,
            F.vmap(lambda x: S.randint(0, 5, (2,)), randomness="different")(S.ones(3)),
            F.vmap(lambda x: S.normal(0.0, 1.0, (2,)), randomness="same")(S.ones(3)),
        )

    @program
    def bern():
        S.manual_seed(1)
        return F.vmap(lambda x: S.bernoulli(x), randomness="different")(S.full((3, 20), 0.5)).shape

    return found
