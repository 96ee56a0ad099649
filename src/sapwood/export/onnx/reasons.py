"""Why some ops have no ONNX form."""

from __future__ import annotations

__all__ = ["DRAWN", "NOT_EXPORTED"]

DRAWN = "it draws random numbers of a distribution that ONNX has not; export the module after model.eval()"

_COMPLEX = "ONNX's operators do not compute with complex numbers"
_SPECIAL = "no ONNX operator computes this function, nor do others make it up to single precision"
_GRADIENT = "it is part of a gradient, which a model that is run elsewhere does not compute"
_BITS = "no operator of this opset reads or writes the bits of a number"

NOT_EXPORTED: dict[str, str] = {
    **dict.fromkeys(("complex", "imag", "polar", "view_as_complex", "view_as_real"), _COMPLEX),
    **dict.fromkeys(
        ("igamma", "igammac", "polygamma", "special_zeta"),
        _SPECIAL,
    ),
    **dict.fromkeys(
        ("affine_grid_back", "avg_pool_gradient", "ctc_occupancy", "filter_gradient",
         "index_unpad", "resample_back", "restrided", "invalid_view", "overwritten", "underived"),
        _GRADIENT,
    ),
    **dict.fromkeys(("frexp", "nextafter", "view_dtype"), _BITS),
    **dict.fromkeys(("gcd", "lcm"), "Euclid's algorithm takes as many steps as its numbers ask for"),
    "bag_reduction": "bags differ in length; use an embedding and a mean or sum over a padded dimension",
    "ctc_negative_log": "alignments differ in length from example to example",
    "embedding_renorm": "it scales rows of the table that it looks up in; leave out max_norm",
    "fractional_max_pool": "its windows lie at pseudo-random places",
    "runs": "no ONNX operator finds runs of equal neighbours",
}  # fmt: skip
"""Ops that cannot be exported, and the reason that the error names."""
