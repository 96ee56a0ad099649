"""Write ops.npz: what PyTorch returns for the samples of every op, and the gradients. Needs torch 2.13.

PYTHONPATH=src python tests/golden/make_ops.py
"""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
from op_cases import cases, fingerprint
from ops_format import Writer
from ops_internal import INTERNAL

import sapwood
from sapwood.ops.declare import input_names, registry
from sapwood.testing.sampling import cotangent, varied

sapwood.ops.complete()
aten = torch.ops.aten


def _key(indices, dims):
    """Return an index expression with the index tensors at their dimensions."""
    key = [slice(None)] * (max(dims) + 1)
    for i, d in zip(indices, dims):
        key[d] = i
    return tuple(key)


def _put_at(input, values, indices, dims, accumulate):
    key = [None] * (max(dims) + 1)
    for i, d in zip(indices, dims):
        key[d] = i
    return aten.index_put(input, key, values, accumulate)


def _index_backward(input, indices, size, dims):
    out = torch.zeros(size, dtype=input.dtype)
    key = [None] * (max(dims) + 1)
    for i, d in zip(indices, dims):
        key[d] = i
    return aten.index_put(out, key, input, True)


def _attention(q, k, v, mask, scale, causal):
    out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=True)
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT * (scale or q.shape[-1] ** -0.5)
    scores = scores if mask is None else scores + mask
    if causal:
        scores = scores + torch.full(scores.shape[-2:], -torch.inf, dtype=scores.dtype).triu(1)
    return out, scores.logsumexp(-1)


def _resample(input, kind, size, align, scales):
    mode = kind.removesuffix("_aa").rstrip("123")
    how = {} if mode == "nearest" else {"align_corners": align, "antialias": kind.endswith("_aa")}
    if None in scales:
        return F.interpolate(input, size, mode=mode, **how)
    return F.interpolate(input, scale_factor=tuple(scales), mode=mode, **how)


def _pooled(name, input, rest):
    """Call the pooling function for as many dimensions as the kernel has; a missing batch dimension is fine."""
    return getattr(F, f"{name}{len(rest)}d")


def _avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    more = {"divisor_override": divisor_override} if len(kernel_size) > 1 else {}
    return _pooled("avg_pool", input, kernel_size)(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, **more
    )


def _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode):
    pool = getattr(F, f"max_pool{len(kernel_size)}d_with_indices")
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def _bag(weight, indices, offsets, per_sample_weights, scale, mode, include_last_offset, padding_idx):
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale, mode=("sum", "mean", "max")[mode],
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=padding,
    )  # fmt: skip


def _ctc(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, "none", zero_infinity)


def _batch_norm(input, weight, bias, mean, var, training, eps):
    mean, var = (None, None) if training else (mean.detach(), var.detach())
    return F.batch_norm(input, mean, var, weight, bias, training, 0.0, eps)


def _per_channel(input):
    return (0, *range(2, input.ndim))


def _channel_variance(input, mean):
    d = input - mean.reshape((-1,) + (1,) * (input.ndim - 2))
    return (d * d).mean(_per_channel(input)).detach()


def _elu(input, alpha=1.0, scale=1.0, input_scale=1.0):
    return aten.elu(input, alpha, scale, input_scale)


def _shifted(input, dim, step, fill):
    out = torch.full_like(input, fill)
    size = input.shape[dim]
    width = max(size - abs(step), 0)
    target, source = (step, 0) if step > 0 else (0, -step)
    return out.slice_scatter(input.narrow(dim, min(source, size), width), dim, target, target + width)


def _restore_dims(input, shape, dim, keepdim):
    if dim is not None and not keepdim:
        for d in sorted(dim):
            input = input.unsqueeze(d)
    return input.expand(shape)


def _select_reduced(input, indices, dim, keepdim):
    found = input.gather(dim, indices if keepdim else indices.unsqueeze(dim))
    return found if keepdim else found.squeeze(dim)


def _convolution(input, weight, bias, *attrs):
    stride, padding, dilation, transposed, output_padding, groups = (
        (a,) if isinstance(a, int) and not isinstance(a, bool) and i != 5 else a for i, a in enumerate(attrs)
    )
    return torch.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _constant_rest(outs):
    """Return the outputs of a normalisation with a gradient through the first alone: PyTorch ignores the others'."""
    return (outs[0], *(o.detach() for o in outs[1:]))


def _correction(args):
    return dict(zip(("correction", "keepdim"), args[2:]))


TORCH = {
    "adaptive_avg_pool": lambda input, n: _pooled("adaptive_avg_pool", input, n)(input, n),
    "adaptive_max_pool": lambda input, n: getattr(F, f"adaptive_max_pool{len(n)}d_with_indices")(input, n),
    "add_number": torch.add,
    "alias": aten.alias,
    "as_strided": lambda input, size, stride, offset, layout: torch.as_strided(input, size, stride, offset),
    "avg_pool": _avg_pool,
    "bag_reduction": _bag,
    "batch_norm_of": _batch_norm,
    "block_diagonal": lambda tensors: torch.block_diag(*tensors),
    "celu_over": F.celu,
    "channel_mean": lambda input: input.mean(_per_channel(input)).detach(),
    "channel_variance": _channel_variance,
    "circular_pad": lambda input, pad, mode: F.pad(input, pad, mode),
    "clamp_min_number": torch.clamp_min,
    "col2im": aten.col2im,
    "copy": aten.copy,
    "ctc_negative_log": _ctc,
    "diagonal_backward": aten.diagonal_backward,
    "div_number": torch.div,
    "div_rounded": torch.div,
    "elu": _elu,
    "elu_over": _elu,
    "fill_over": aten.fill,
    "fractional_max_pool": lambda input, samples, kernel, out: F.fractional_max_pool2d_with_indices(
        input,
        kernel,
        output_size=out,
        _random_samples=samples.flip(2),  # PyTorch's first number places the columns
    ),
    "fused_attention": _attention,
    "hardsigmoid_backward": aten.hardsigmoid_backward,
    "hardtanh_backward": aten.hardtanh_backward,
    "im2col": aten.im2col,
    "index": lambda input, indices, dims: input[_key(indices, dims)],
    "index_backward": _index_backward,
    "index_fill_tensor": torch.index_fill,
    "index_fill_value": torch.index_fill,
    "index_pad": lambda input, pad, mode: F.pad(input, pad, mode),
    "index_put_at": _put_at,
    "layer_norm_of": F.layer_norm,
    "leaky_relu_over": F.leaky_relu,
    "leaky_relu_backward": lambda g, input, slope: aten.leaky_relu_backward(g, input, slope, False),
    "log_softmax_of": torch.log_softmax,
    "masked_fill_tensor": torch.masked_fill,
    "masked_fill_value": torch.masked_fill,
    "max_all": torch.max,
    "max_of_windows": lambda *a: _max_pool(*a)[0].detach(),
    "max_pool_with_indices": _max_pool,
    "max_unpool": lambda input, indices, size: aten.max_unpool2d(input, indices, size),
    "median_all": torch.median,
    "min_all": torch.min,
    "moving_average": lambda input, value, momentum, factor: value * factor * momentum + (1 - momentum) * input,
    "mul_number": torch.mul,
    "nanmedian_all": torch.nanmedian,
    "norm_of_difference": lambda input, ord, dim: torch.linalg.vector_norm(input, ord, dim),
    "number_minus": torch.rsub,
    "prelu_kernel": aten._prelu_kernel,
    "resample": _resample,
    "reshape_alias": torch.reshape,
    "restore_dims": _restore_dims,
    "reverse_cumsum": lambda input, dim: input.flip(dim).cumsum(dim).flip(dim) if input.ndim else input.clone(),
    "rrelu_over": lambda input, noise, low, high, training: F.rrelu(input, low, high, training),
    "rrelu_with_noise": lambda input, noise, low, high, training: F.rrelu(input, low, high, training),
    "safe_softmax": aten._safe_softmax,
    "scatter_combine": lambda input, dim, index, src, reduce: torch.scatter(input, dim, index, src, reduce=reduce),
    "scatter_src": torch.scatter,
    "scatter_value": torch.scatter,
    "select_backward": aten.select_backward,
    "select_reduced": _select_reduced,
    "shifted": _shifted,
    "slice": aten.slice,
    "slice_backward": aten.slice_backward,
    "softmax_of": torch.softmax,
    "threshold_over": F.threshold,
    "threshold_backward": aten.threshold_backward,
    "to_copy": lambda input, dtype: input.to(dtype, copy=True),
    "trace_back": lambda input, shape: torch.eye(*shape, dtype=input.dtype) * input,
    "trilinear": lambda a, w, b: torch.bilinear(a, b, w, None),
    "unfold_backward": aten.unfold_backward,
    "unsafe_view": torch.reshape,
    "view_dtype": lambda input, dtype: input.view(dtype),
    "zero_fill": torch.zeros_like,
    "native_group_norm": lambda *a: _constant_rest(torch.native_group_norm(*a)),
    "native_layer_norm": lambda *a: _constant_rest(torch.native_layer_norm(*a)),
    "std": lambda *a, **k: torch.std(*a[:2], **_correction(a), **k),
    "std_mean": lambda *a, **k: torch.std_mean(*a[:2], **_correction(a), **k),
    "unfold": torch.Tensor.unfold,
    "var": lambda *a, **k: torch.var(*a[:2], **_correction(a), **k),
    "var_mean": lambda *a, **k: torch.var_mean(*a[:2], **_correction(a), **k),
    # Functions whose namesake in PyTorch takes other arguments.
    "cdist": torch.cdist,
    "channel_shuffle": F.channel_shuffle,
    "convolution": _convolution,
    "conj": torch.conj_physical,
    "conj_physical": torch.conj_physical,
    "embedding": lambda weight, indices, *rest: F.embedding(indices, weight, *rest),
    "imag": lambda input: input.imag.clone(),
    "multi_margin_loss": lambda input, target, p, margin, weight, reduction="mean": F.multi_margin_loss(
        input, target, p, margin, weight, reduction=reduction
    ),
    "nll_loss": lambda input, target, weight=None, reduction="mean", ignore_index=-100: F.nll_loss(
        input, target, weight, None, ignore_index, None, reduction
    ),
    "binary_cross_entropy": lambda input, target, weight=None, reduction="mean": F.binary_cross_entropy(
        input, target, weight, reduction=reduction
    ),
    "binary_cross_entropy_with_logits": lambda input, target, weight, pos, reduction="mean": (
        F.binary_cross_entropy_with_logits(input, target, weight, reduction=reduction, pos_weight=pos)
    ),
    "huber_loss": F.huber_loss,
    "mse_loss": F.mse_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "soft_margin_loss": F.soft_margin_loss,
    "real": lambda input: input.real.clone(),
}


def peer(op):
    """Return the function of PyTorch that the op stands for, None if there is none."""
    if op.name in TORCH:
        return TORCH[op.name]
    for prefix, namespace in (("special_", torch.special), ("linalg_", torch.linalg), ("fft_", torch.fft)):
        if op.name.startswith(prefix):
            return getattr(namespace, op.name.removeprefix(prefix), None)
    for namespace in (torch, F, torch.Tensor):
        found = getattr(namespace, op.name, None)
        if found is not None:
            return found
    return None


def to_torch(value):
    """Return attributes as PyTorch writes them."""
    if isinstance(value, sapwood.dtype):
        return getattr(torch, value.name)
    return value


def arguments(op, sample, wanted):
    """Return the call's arguments on tensors, and the tensors that require grad."""
    leaves = []

    def tensor(a):
        t = torch.from_numpy(np.array(a))
        t.requires_grad_(bool(wanted[len(leaves)]))
        leaves.append(t)
        return t

    made = sample.map(tensor)
    names = set(input_names(op))
    order = [n for n, _, _ in op.params]
    args = [a if n in names else to_torch(a) for n, a in zip(order, made.args)]
    return args, {k: to_torch(v) for k, v in made.kwargs.items()}, leaves


def plain(tensor):
    """Return a tensor's values as an array."""
    return tensor.numpy(force=True)


def record(op, function, sample, writer):
    """Return the index entry of one call: outputs, gradients, or the class of the refusal."""
    entry = {"print": fingerprint(sample)}
    wanted = [a.dtype.kind in "fc" for a in sample.arrays()]
    try:
        args, kwargs, leaves = arguments(op, sample, wanted)
        try:
            result = function(*args, **kwargs)
        except RuntimeError as problem:
            if not re.search("differentiable|differentiation", str(problem)):
                raise
            # PyTorch refuses a gradient for some inputs or types outright; ours ignores that they require one.
            none = "complex" in str(problem)
            entry["asked"] = wanted = [int(v and not none) for v in varied(op, sample)]
            args, kwargs, leaves = arguments(op, sample, wanted)
            result = function(*args, **kwargs)
    except (RuntimeError, TypeError, IndexError, ValueError) as problem:
        entry["refused"] = next(
            c.__name__ for c in (IndexError, TypeError, ValueError, RuntimeError) if isinstance(problem, c)
        )
        entry["why"] = str(problem).split("\n")[0][:80]
        return entry
    outs = tuple(result) if isinstance(result, tuple | list) else (result,)
    entry["outs"] = [writer.put(plain(o)) for o in outs]
    live = [o for o in outs if o.requires_grad]
    entry["live"] = [int(o.requires_grad) for o in outs]
    asked = [t for t in leaves if t.requires_grad]
    if not live or not asked:
        return entry
    rng = np.random.default_rng(len(op.name))
    gs = [torch.from_numpy(cotangent(rng, tuple(o.shape), plain(o).dtype)) for o in live]
    try:
        grads = torch.autograd.grad(live, asked, gs, allow_unused=True)
    except RuntimeError:
        entry["unwritten"] = 1  # PyTorch has no such derivative, or fails in it
        return entry
    found = iter(grads)
    entry["grads"] = [
        None if not t.requires_grad or (g := next(found)) is None else writer.put(plain(g)) for t in leaves
    ]
    return entry


def main():
    """Call every op on every case and write the file."""
    warnings.simplefilter("ignore")
    writer = Writer()
    for name, op in sorted(registry.items()):
        function = peer(op)
        if function is None or name in INTERNAL:
            if op.reference is None and name not in INTERNAL:
                print(f"{name}: PyTorch has no such function; name it in TORCH or INTERNAL")
            continue
        entries = {label: record(op, function, sample, writer) for label, sample in cases(op)}
        if all("refused" in e for e in entries.values()):
            print(f"{name}: every call is refused: {next(iter(entries.values()))['why']}")
        for e in entries.values():
            if "-v" in sys.argv and "refused" in e:
                print(name, e["why"])
            e.pop("why", None)
        writer.index[name] = entries
    path = Path(__file__).with_name("ops.npz")
    writer.save(path)
    print(f"{path.name}: {sum(map(len, writer.index.values()))} calls, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
