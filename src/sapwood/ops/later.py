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
    "columns": "",
    "contraction": "",
    "conv": "",
    "ctc": "",
    "difference": "diff",
    "distance": "",
    "dropping": "",
    "legacy": "",
    "lookup": "",
    "lookup_bag": "",
    "loss": "",
    "loss_margin": "",
    "loss_more": "",
    "normalization": "",
    "normalization_batch": "",
    "number": "",
    "ordering": "sort argsort topk msort",
    "pad": "",
    "padding": "",
    "place": (
        "index_select index_add index_add_ index_copy index_copy_ index_reduce index_reduce_ take put "
        "put_ index_fill index_fill_ take_along_dim"
    ),
    "pool": "",
    "rank": "kthvalue mode median nanmedian quantile nanquantile",
    "scan": "cumsum cumsum_ cumprod cumprod_ logcumsumexp cummax cummin",
    "scattering": "gather scatter_add scatter_add_ scatter_reduce scatter_reduce_ scatter scatter_",
    "search": "unique unique_consecutive nonzero argwhere",
    "softmaxes": "softmax log_softmax",
    "special_math": (
        "erf erf_ erfc erfc_ erfinv erfinv_ lgamma lgamma_ digamma digamma_ i0 i0_ logit logit_ igamma "
        "igamma_ igammac igammac_ mvlgamma mvlgamma_ polygamma"
    ),
    "statistic": "histc bincount var std cov corrcoef",
    "upsample": "",
    "vector_norm": "dist renorm renorm_ logsumexp norm",
    "vision": "",
    "window": "",
}
