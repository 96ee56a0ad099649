"""In-place forms of activations whose gradient follows from the result, so that the overwritten input is not kept.

Where PyTorch gives the in-place form a node of another name, it is an op of its own here.
"""

from __future__ import annotations

from .. import ops
from ..errors import ValueRangeError
from . import activation
from .declare import op


def _invertible(name: str, slope: float) -> None:
    if slope < 0:
        raise ValueRangeError(
            f"backward: {name} in place with the negative slope {slope} cannot tell from its result which elements "
            "were negative; use the form that is not in place"
        )


@op
class elu_over(activation.elu.op):
    """Replace negative elements by an exponential that tends to -alpha, over the input."""

    grad_fn = "EluBackward1"

    def vjp_input(g, out, alpha, scale, input_scale):
        _invertible("elu", alpha)
        return ops.where(out <= 0, g * ((out + alpha * scale) * input_scale), g * scale)


@op
class celu_over(activation.celu.op):
    """Replace negative elements by a smooth exponential, over the input."""

    function = False
    grad_fn = "CeluBackward1"

    def vjp_input(g, out, alpha):
        _invertible("celu", alpha)
        return ops.where(out <= 0, g * ((out + alpha) * (1 / alpha)), g)


@op
class leaky_relu_over(activation.leaky_relu.op):
    """Scale negative elements by `negative_slope`, over the input."""

    grad_fn = "LeakyReluBackward1"

    def vjp_input(g, out, negative_slope):
        _invertible("leaky_relu", negative_slope)
        return ops.leaky_relu_backward(g, out, negative_slope)


@op
class threshold_over(activation.threshold.op):
    """Replace elements that do not exceed `threshold` by `value`, over the input."""

    function = False
    grad_fn = "ThresholdBackward1"


@op
class rrelu_over(activation.rrelu_with_noise.op):
    """Scale elements that are not positive, over the input."""

    grad_fn = "RreluWithNoiseBackward1"

    def vjp_input(g, out, noise, lower, upper, training):
        _invertible("rrelu", lower)
        if training:
            return ops.choose_backward(g, out, noise)
        return ops.leaky_relu_backward(g, out, (lower + upper) / 2)


__all__ = ["celu_over", "elu_over", "leaky_relu_over", "rrelu_over", "threshold_over"]
