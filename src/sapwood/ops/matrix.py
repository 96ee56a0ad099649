"""Matrix products: `mm`, `mv`, `dot`, `bmm`, `addmm` … and `matmul`, which chooses among them by rank."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .. import ops
from ..dtypes import F32, F64
from ..errors import DtypeError, ShapeError
from . import warm
from .declare import Plain, op

_dot = np.dot
_RANK = {1: "a vector (1 dimension)", 2: "a matrix (2 dimensions)", 3: "a batch of matrices (3 dimensions)"}


def multiply(a: Any, b: Any, bias: Any = None) -> Any:
    """Return the products of matrices, a bias added to every row: in native code, or by NumPy's matmul.

    Args:
        a, b: (..., N, K) and (..., K, M), of one type.
        bias: (M,) of the same type, for two matrices.
    """
    dt = a.dtype
    if (dt is F32 or dt is F64) and b.dtype is dt and a.ndim == b.ndim and warm.serve(max(a.size, b.size)):
        native = _builtin()
        return native(a, b) if bias is None else native(a, b, bias)
    return _on_numpy(a, b, bias)


@cache
def _builtin() -> Any:
    from ..kernels import gemm

    return gemm.builtin_of(_laid_out)


def _laid_out(a: Any, b: Any, bias: Any = None) -> Any:
    """Multiply what native code left: once more if it was for the layout, else on NumPy."""
    from ..kernels import gemm

    if a.shape[:-2] != b.shape[:-2] or a.ndim < 2 or a.shape[-1] != b.shape[-2]:
        return _on_numpy(a, b, bias)
    x, y = gemm.dense(a), gemm.dense(b)
    if a.ndim > 3:
        shape = (*a.shape[:-1], b.shape[-1])
        x, y = (gemm.dense(np.reshape(t, (-1, *t.shape[-2:]))) for t in (x, y))
        return gemm.builtin_of(_on_numpy)(x, y).reshape(shape)
    if bias is None:
        return gemm.builtin_of(_on_numpy)(x, y)
    return gemm.builtin_of(_on_numpy)(x, y, np.ascontiguousarray(bias))


def _on_numpy(a: Any, b: Any, bias: Any = None) -> Any:
    r = np.matmul(a, b)
    return r if bias is None else np.add(r, bias, out=r)


def _native(plain: Any, least: int) -> Any:
    """Return the builtin that multiplies in an op's place, and hands what it does not cover to `plain`."""
    from ..kernels import gemm

    return gemm.builtin_of(plain, least)


def _native_addmm(plain: Any, least: int) -> Any:
    """Return what adds a product to a bias in addmm's place."""
    from ..kernels import gemm

    times = gemm.builtin_of(lambda a, b, bias: plain(bias, a, b), least)

    def forward(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        if beta == 1 == alpha and input.ndim == 1:
            return times(mat1, mat2, input)
        return plain(input, mat1, mat2, beta=beta, alpha=alpha)

    return forward


def product(a: Any, b: Any, times: Any = multiply) -> Any:
    """Return a matrix product in the operands' type; 16-bit floats are summed in float32 and rounded once."""
    if a.dtype.itemsize == 2 and a.dtype.kind in "fV":
        return np.asarray(times(a.astype(F32), b.astype(F32))).astype(a.dtype)
    return times(a, b)


def check_dtypes(name: str, *arrays: Any) -> None:
    """Raise unless all arrays have one type, and not bool.

    Raises:
        DtypeError: the types differ, or are bool.
    """
    first = arrays[0].dtype
    for a in arrays[1:]:
        if a.dtype != first:
            found = " and ".join(str(x.dtype) for x in arrays)
            raise DtypeError(f"{name}: the operands must have one dtype, got {found}; convert one with .to(dtype)")
    if first.kind == "b":
        raise DtypeError(f"{name}: not defined for bool; convert to a number type first, e.g. .float() or .int()")


def _checked(name: str, multiply: Any, a: Any, b: Any, ranks: tuple[int, int]) -> Any:
    """Multiply after the checks that the fast paths leave out."""
    check_ranks(name, ("input", a, ranks[0]), ("the other operand", b, ranks[1]))
    check_dtypes(name, a, b)
    return product(a, b, multiply)


def check_ranks(name: str, *operands: tuple[str, Any, int]) -> None:
    """Raise ShapeError unless each (name, array, rank) has its rank."""
    for what, a, rank in operands:
        if a.ndim != rank:
            raise ShapeError(f"{name}: {what} must be {_RANK[rank]}, got shape {a.shape}")


def explain_inner(name: str, a: Any, b: Any, names: tuple[str, str] = ("input", "other")) -> None:
    """Raise the error of two operands whose sizes do not fit, with the fix if transposing is one."""
    x, y = names
    rows = -1 if b.ndim == 1 else -2
    if a.ndim and b.ndim and a.shape[-1] != b.shape[rows]:
        hint = ""
        if b.ndim > 1 and a.shape[-1] == b.shape[-1]:
            hint = f". Did you mean {y}.mT?"
        elif a.ndim > 1 and a.shape[-2] == b.shape[rows]:
            hint = f". Did you mean {x}.mT?"
        raise ShapeError(
            f"{name}: inner sizes differ: {x} is {a.shape}, {y} is {b.shape}; {x}.shape[-1] must equal "
            f"{y}.shape[{rows}]{hint}"
        )
    raise ShapeError(f"{name}: batch sizes do not fit: {x} is {a.shape}, {y} is {b.shape}")


@op
class mm(Plain):
    """Multiply two matrices.

    Args:
        input: (N, K).
        mat2: (K, M), dtype of input.

    Returns:
        (N, M), dtype of input.
    """

    inputs = ("input", "mat2")
    kind = "bilinear"
    half = False

    def forward(input, mat2):
        dt = input.dtype
        if mat2.dtype is dt and (dt is F32 or dt is F64) and input.ndim == 2 == mat2.ndim:
            return multiply(input, mat2)
        return _checked("mm", multiply, input, mat2, (2, 2))

    native = _native
    infer = lambda input, mat2: explain_inner("mm", input, mat2, ("input", "mat2"))

    # The gradient of a column-major operand is made column-major: that of a transposed weight is then row-major
    # when the transposition is undone.
    def vjp_input(g, mat2, input_order):
        return ops.mm(g, mat2.mT) if input_order == "C" else ops.mm(mat2, g.mT).mT

    def vjp_mat2(g, input, mat2_order):
        return ops.mm(input.mT, g) if mat2_order == "C" else ops.mm(g.mT, input).mT

    samples = lambda rng: [
        (rng.standard_normal((2, 3)), rng.standard_normal((3, 4))),
        (rng.standard_normal((2, 3)), rng.standard_normal((4, 3)).T),
        (rng.standard_normal((2, 0)), rng.standard_normal((0, 4))),
    ]
    reference = lambda input, mat2: np.einsum("ij,jk->ik", input, mat2)
    dtypes = "ifc"


@op
class mv(Plain):
    """Multiply a matrix (N, K) with a vector (K,), giving (N,)."""

    inputs = ("input", "vec")
    kind = "bilinear"
    half = False

    def forward(input, vec):
        dt = input.dtype
        if vec.dtype is dt and (dt is F32 or dt is F64) and input.ndim == 2 and vec.ndim == 1:
            return _dot(input, vec)
        return _checked("mv", _dot, input, vec, (2, 1))

    infer = lambda input, vec: explain_inner("mv", input, vec, ("input", "vec"))
    vjp_input = lambda g, vec: ops.unsqueeze(g, 1) * vec
    vjp_vec = lambda g, input: ops.mv(input.mT, g)
    samples = lambda rng: [(rng.standard_normal((2, 3)), rng.standard_normal(3))]
    reference = lambda input, vec: np.einsum("ij,j->i", input, vec)
    dtypes = "ifc"


@op
class dot(Plain):
    """Return the inner product of two vectors of one length (no conjugation)."""

    inputs = ("input", "tensor")
    kind = "bilinear"
    half = False

    def forward(input, tensor):
        return _checked("dot", _dot, input, tensor, (1, 1))

    infer = lambda input, tensor: explain_inner("dot", input, tensor, ("input", "tensor"))
    vjp_input = lambda g, tensor: g * tensor
    vjp_tensor = lambda g, input: g * input
    samples = lambda rng: [(rng.standard_normal(3), rng.standard_normal(3))]
    reference = lambda input, tensor: (input * tensor).sum()
    dtypes = "ifc"


@op
class vdot(Plain):
    """Return the inner product of two vectors, the first one conjugated."""

    inputs = ("input", "other")
    half = False
    holomorphic = False

    def forward(input, other):
        return _checked("vdot", np.vdot, input, other, (1, 1))

    infer = lambda input, other: explain_inner("vdot", input, other)
    vjp_input = lambda g, other: g.conj() * other
    vjp_other = lambda g, input: g * input
    samples = lambda rng: [(rng.standard_normal(3), rng.standard_normal(3))]
    reference = lambda input, other: (np.conj(input) * other).sum()
    dtypes = "ifc"


def _batch(name: str, a: Any, b: Any, names: tuple[str, str]) -> Any:
    dt = a.dtype
    if a.ndim == 3 == b.ndim and a.shape[0] == b.shape[0]:
        if b.dtype is dt and (dt is F32 or dt is F64):
            return multiply(a, b)
        check_dtypes(name, a, b)
        return product(a, b)
    check_ranks(name, (names[0], a, 3), (names[1], b, 3))
    raise ShapeError(f"{name}: batch sizes differ: {names[0]} is {a.shape}, {names[1]} is {b.shape}; use matmul")


@op
class bmm(Plain):
    """Multiply two batches of matrices: (B, N, K) and (B, K, M) give (B, N, M)."""

    inputs = ("input", "mat2")
    kind = "bilinear"
    half = False
    forward = lambda input, mat2: _batch("bmm", input, mat2, ("input", "mat2"))
    native = _native
    infer = lambda input, mat2: explain_inner("bmm", input, mat2, ("input", "mat2"))
    vjp_input = lambda g, mat2: ops.bmm(g, mat2.mT)
    vjp_mat2 = lambda g, input: ops.bmm(input.mT, g)
    samples = lambda rng: [(rng.standard_normal((2, 2, 3)), rng.standard_normal((2, 3, 4)))]
    reference = lambda input, mat2: np.einsum("bij,bjk->bik", input, mat2)
    dtypes = "ifc"


# -- a product added to something -------------------------------------------------------------------------------------


def _scalar(number: Any, dtype: Any) -> Any:
    return int(number) if dtype.kind in "iu" else number


def _plus(name: str, input: Any, r: Any, beta: Any, alpha: Any) -> Any:
    """Return beta * input + alpha * r in the memory of r, which is the caller's own."""
    r = np.asarray(r)
    if alpha != 1:
        np.multiply(r, _scalar(alpha, r.dtype), out=r, casting="unsafe")
    try:
        if beta == 1:
            np.add(r, input, out=r)
        elif beta == 0:
            # beta 0 leaves input out, its NaNs included.
            np.broadcast_to(input, r.shape)
        else:
            np.add(r, input * r.dtype.type(_scalar(beta, r.dtype)), out=r)
    except ValueError:
        raise ShapeError(f"{name}: input is {input.shape} and must broadcast to the product's {r.shape}") from None
    return r


def _added(name: str, input: Any, a: Any, b: Any, beta: Any, alpha: Any, ranks: tuple[int, int], times: Any) -> Any:
    dt = a.dtype
    if not (b.dtype is dt and input.dtype is dt and (dt is F32 or dt is F64) and (a.ndim, b.ndim) == ranks):
        check_ranks(name, ("the first factor", a, ranks[0]), ("the second factor", b, ranks[1]))
        check_dtypes(name, input, a, b)
        if dt.itemsize == 2 and dt.kind in "fV":
            wide = [x.astype(F32) for x in (input, a, b)]
            return _plus(name, wide[0], times(wide[1], wide[2]), beta, alpha).astype(dt)
    if times is multiply and beta == 1 == alpha and input.shape == b.shape[1:]:
        return multiply(a, b, input)
    return _plus(name, input, times(a, b), beta, alpha)


def _times(x: Any, factor: Any) -> Any:
    return x if factor == 1 else x * factor


class _Added(Plain):
    inplace = True
    half = False
    dtypes = "ifc"


@op
class addmm(_Added):
    """Return beta * input + alpha * (mat1 @ mat2).

    Args:
        input: broadcasts to (N, M); left out where beta is 0.
        mat1: (N, K).
        mat2: (K, M).
    """

    inputs = ("input", "mat1", "mat2")

    def forward(input, mat1, mat2, *, beta=1, alpha=1):
        return _added("addmm", input, mat1, mat2, beta, alpha, (2, 2), multiply)

    native = _native_addmm
    infer = lambda input, mat1, mat2, beta, alpha: explain_inner("addmm", mat1, mat2, ("mat1", "mat2"))
    vjp_input = lambda g, beta: _times(g, beta)

    def vjp_mat1(g, mat2, mat1_order, alpha):
        return _times(ops.mm(g, mat2.mT) if mat1_order == "C" else ops.mm(mat2, g.mT).mT, alpha)

    def vjp_mat2(g, mat1, mat2_order, alpha):
        return _times(ops.mm(mat1.mT, g) if mat2_order == "C" else ops.mm(g.mT, mat1).mT, alpha)

    samples = lambda rng: [
        (rng.standard_normal(4), rng.standard_normal((2, 3)), rng.standard_normal((4, 3)).T),
        (*(rng.standard_normal(s) for s in ((2, 4), (2, 3), (3, 4))), {"beta": 0.5, "alpha": 2.0}),
    ]
    reference = lambda input, mat1, mat2, beta=1, alpha=1: beta * input + alpha * np.einsum("ij,jk", mat1, mat2)


@op
class addmv(_Added):
    """Return beta * input + alpha * (mat @ vec)."""

    inputs = ("input", "mat", "vec")

    def forward(input, mat, vec, *, beta=1, alpha=1):
        return _added("addmv", input, mat, vec, beta, alpha, (2, 1), _dot)

    infer = lambda input, mat, vec, beta, alpha: explain_inner("addmv", mat, vec, ("mat", "vec"))
    vjp_input = lambda g, beta: _times(g, beta)
    vjp_mat = lambda g, vec, alpha: _times(ops.unsqueeze(g, 1) * vec, alpha)
    vjp_vec = lambda g, mat, alpha: _times(ops.mv(mat.mT, g), alpha)
    samples = lambda rng: [(*(rng.standard_normal(s) for s in (2, (2, 3), 3)), {"beta": 0.5, "alpha": 2.0})]
    reference = lambda input, mat, vec, beta=1, alpha=1: beta * input + alpha * np.einsum("ij,j", mat, vec)


@op
class addr(_Added):
    """Return beta * input + alpha * (the outer product of vec1 and vec2)."""

    inputs = ("input", "vec1", "vec2")
    promote = "same"
    dtypes = "bifc"

    def forward(input, vec1, vec2, *, beta=1, alpha=1):
        check_ranks("addr", ("vec1", vec1, 1), ("vec2", vec2, 1))
        if vec1.dtype.kind == "b":
            outer = vec1[:, None] & vec2 & bool(alpha)
            return np.broadcast_to(input & bool(beta), outer.shape) | outer
        return _plus("addr", input, vec1[:, None] * vec2, beta, alpha)

    vjp_input = lambda g, beta: _times(g, beta)
    vjp_vec1 = lambda g, vec2, alpha: _times(ops.mv(g, vec2), alpha)
    vjp_vec2 = lambda g, vec1, alpha: _times(ops.mv(g.mT, vec1), alpha)
    samples = lambda rng: [(*(rng.standard_normal(s) for s in ((2, 3), 2, 3)), {"beta": 0.5, "alpha": 2.0})]
    reference = lambda input, vec1, vec2, beta=1, alpha=1: beta * input + alpha * np.outer(vec1, vec2)


@op
class addbmm(_Added):
    """Return beta * input + alpha * (the sum of the products of two batches of matrices)."""

    inputs = ("input", "batch1", "batch2")

    def forward(input, batch1, batch2, *, beta=1, alpha=1):
        if batch1.dtype.itemsize == 2 and batch1.dtype.kind in "fV" and batch1.ndim == 3 and len(batch1):
            # 16-bit sums are rounded after every matrix, as if the matrices were added one after the other.
            for a, b in zip(batch1, batch2):
                input, beta = _added("addbmm", input, a, b, beta, alpha, (2, 2), multiply), 1
            return input
        total = lambda a, b: _batch("addbmm", a, b, ("batch1", "batch2")).sum(0, dtype=a.dtype)
        return _added("addbmm", input, batch1, batch2, beta, alpha, (3, 3), total)

    infer = lambda input, batch1, batch2, beta, alpha: explain_inner("addbmm", batch1, batch2, ("batch1", "batch2"))
    vjp_input = lambda g, beta: _times(g, beta)
    vjp_batch1 = lambda g, batch2, alpha: _times(ops.matmul(ops.unsqueeze(g, 0), batch2.mT), alpha)
    vjp_batch2 = lambda g, batch1, alpha: _times(ops.matmul(batch1.mT, ops.unsqueeze(g, 0)), alpha)
    samples = lambda rng: [(*(rng.standard_normal(s) for s in ((2, 4), (5, 2, 3), (5, 3, 4))), {"alpha": 2.0})]
    reference = lambda input, batch1, batch2, beta=1, alpha=1: (
        beta * input + alpha * np.einsum("bij,bjk->ik", batch1, batch2)
    )


@op
class baddbmm(_Added):
    """Return beta * input + alpha * (batch1 @ batch2), matrix by matrix."""

    inputs = ("input", "batch1", "batch2")

    def forward(input, batch1, batch2, *, beta=1, alpha=1):
        each = lambda a, b: _batch("baddbmm", a, b, ("batch1", "batch2"))
        return _added("baddbmm", input, batch1, batch2, beta, alpha, (3, 3), each)

    infer = lambda input, batch1, batch2, beta, alpha: explain_inner("baddbmm", batch1, batch2, ("batch1", "batch2"))
    vjp_input = lambda g, beta: _times(g, beta)
    vjp_batch1 = lambda g, batch2, alpha: _times(ops.bmm(g, batch2.mT), alpha)
    vjp_batch2 = lambda g, batch1, alpha: _times(ops.bmm(batch1.mT, g), alpha)
    samples = lambda rng: [(*(rng.standard_normal(s) for s in ((2, 4), (5, 2, 3), (5, 3, 4))), {"beta": 0.5})]
    reference = lambda input, batch1, batch2, beta=1, alpha=1: (
        beta * input + alpha * np.einsum("bij,bjk->bik", batch1, batch2)
    )
