"""Families that load at first use, so that importing the package stays fast, and the Tensor methods that bring them.

Functions need no list: asking the package for a name it does not have yet loads every family. A method must exist on
the class beforehand, so those of late families are named here; a test compares the list with the declarations.
"""

from __future__ import annotations

METHODS: dict[str, str] = {
    "activation": "relu relu_ hardshrink",
    "activation_inplace": "",
    "activation_more": "prelu",
    "activation_slope": "",
    "adaptive": "",
    "attention": "",
    "bitwise": (
        "__and__ __iand__ __ilshift__ __invert__ __ior__ __irshift__ __ixor__ __lshift__ __or__ __rand__ "
        "__rlshift__ __ror__ __rrshift__ __rshift__ __rxor__ __xor__ bitwise_and bitwise_and_ "
        "bitwise_left_shift bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ "
        "bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_"
    ),
    "columns": "",
    "contraction": "",
    "conv": "",
    "ctc": "",
    "difference": "diff",
    "distance": "",
    "dropping": "",
    "extrema": (
        "clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ fmax fmin gcd gcd_ lcm lcm_ maximum minimum"
    ),
    "index_write": "__setitem__ index_put index_put_",
    "legacy": "",
    "lookup": "",
    "lookup_bag": "",
    "loss": "",
    "loss_margin": "",
    "loss_more": "",
    "mask": "masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select",
    "normalization": "",
    "normalization_batch": "",
    "number": "",
    "ordering": "sort argsort topk msort",
    "pad": "",
    "padding": "",
    "place": (
        "index_select index_add index_add_ index_copy index_copy_ index_reduce index_reduce_ take put put_ "
        "index_fill index_fill_ take_along_dim"
    ),
    "pool": "",
    "products": "cross ger inner kron outer",
    "rank": "kthvalue mode median nanmedian quantile nanquantile",
    "recurrent": "",
    "rounding": (
        "__abs__ abs abs_ absolute absolute_ ceil ceil_ copysign copysign_ deg2rad deg2rad_ fix fix_ floor "
        "floor_ frac frac_ heaviside heaviside_ nan_to_num nan_to_num_ nextafter nextafter_ rad2deg rad2deg_ "
        "round round_ sgn sgn_ sign sign_ trunc trunc_"
    ),
    "scan": "cumsum cumsum_ cumprod cumprod_ logcumsumexp cummax cummin",
    "scattering": "gather scatter_add scatter_add_ scatter_reduce scatter_reduce_ scatter scatter_",
    "search": "unique unique_consecutive nonzero argwhere",
    "softmaxes": "softmax log_softmax",
    "special_math": (
        "erf erf_ erfc erfc_ erfinv erfinv_ lgamma lgamma_ digamma digamma_ i0 i0_ logit logit_ igamma "
        "igamma_ igammac igammac_ mvlgamma mvlgamma_ polygamma"
    ),
    "statistic": "histc bincount var std cov corrcoef",
    "truth": "all any count_nonzero",
    "upsample": "",
    "vector_norm": "dist renorm renorm_ logsumexp norm",
    "vision": "",
    "window": "",
}
