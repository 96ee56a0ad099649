"""Recurrent layers: `RNN`, `LSTM`, `GRU` and their single-step cells."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from .. import ops
from ..dtypes import float32, float64
from ..errors import ShapeError
from ..ops import recurrent
from ..tensor import Parameter, Tensor
from . import functional as F
from . import init
from .module import Module
from .utils.rnn import PackedSequence

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _apply_permutation(tensor: Any, permutation: Any, dim: int = 1) -> Any:
    return tensor.index_select(dim, permutation)


# -- one step ---------------------------------------------------------------------------------------------------------


def _simple(activation: Any) -> Any:
    """Return the step of a plain recurrent network: h' = activation(W x + b + U h + c)."""

    def step(gates: Any, state: tuple[Any, ...], w_hh: Any, b_hh: Any) -> tuple[Any, ...]:
        return (activation(gates + F.linear(state[0], w_hh, b_hh)),)

    return step


def _lstm(gates: Any, state: tuple[Any, ...], w_hh: Any, b_hh: Any) -> tuple[Any, ...]:
    """Return (h', c') of a long short-term memory; the gates are input, forget, cell and output."""
    i, f, g, o = (gates + F.linear(state[0], w_hh, b_hh)).chunk(4, -1)
    c = ops.sigmoid(f) * state[1] + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(c), c


def _gru(gates: Any, state: tuple[Any, ...], w_hh: Any, b_hh: Any) -> tuple[Any, ...]:
    """Return (h',) of a gated recurrent unit; the gates are reset, update and new."""
    ir, iz, i_new = gates.chunk(3, -1)
    hr, hz, h_new = F.linear(state[0], w_hh, b_hh).chunk(3, -1)
    r = ops.sigmoid(ir + hr)
    z = ops.sigmoid(iz + hz)
    n = ops.tanh(i_new + r * h_new)
    return (n + z * (state[0] - n),)


_STEPS = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": _simple(lambda x: ops.tanh(x)),
    "RNN_RELU": _simple(lambda x: F.relu(x)),
}


# -- layers -----------------------------------------------------------------------------------------------------------


class RNNBase(Module):
    """What the recurrent layers share: the parameters, and the loop over layers, directions and time.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: layers on top of each other.
        bias: whether each layer has its two biases.
        batch_first: whether inputs are (N, L, …) instead of (L, N, …).
        dropout: probability of dropout between the layers.
        bidirectional: whether a second set of weights reads the sequence from its end.
        proj_size: if positive, the LSTM's output is projected to this many features.
        device: where the parameters live.
        dtype: their element type.
    """

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
        "proj_size",
    ]  # fmt: skip
    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(dropout, numbers.Real) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout must be a number in [0, 1], got {dropout!r}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"{name}: dropout acts between layers, so dropout={dropout} does nothing with num_layers=1",
                stacklevel=3,
            )
        for what, given, kind in (
            ("bias", bias, bool),
            ("batch_first", batch_first, bool),
            ("input_size", input_size, int),
            ("hidden_size", hidden_size, int),
        ):
            if not isinstance(given, kind):
                raise TypeError(f"{name}: {what} must be a {kind.__name__}, got {type(given).__name__}")
        for what, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if size <= 0:
                raise ValueError(f"{name}: {what} must be positive, got {size}")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(f"{name}: proj_size must be 0 or smaller than hidden_size, got {proj_size}")
        if mode not in _GATES:
            raise ValueError(f"{name}: unknown mode {mode!r}, it is one of {', '.join(_GATES)}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        self._make_weights({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _make_weights(self, where: dict[str, Any]) -> None:
        rows = _GATES[self.mode] * self.hidden_size
        out = self.proj_size or self.hidden_size
        directions = ("", "_reverse") if self.bidirectional else ("",)
        for layer in range(self.num_layers):
            width = self.input_size if layer == 0 else out * len(directions)
            for direction in directions:
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, out)}
                if self.bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if self.proj_size:
                    shapes |= {"weight_hr": (self.proj_size, self.hidden_size)}
                names = [f"{kind}_l{layer}{direction}" for kind in shapes]
                for name, shape in zip(names, shapes.values()):
                    self.register_parameter(name, Parameter(ops.empty(shape, **where)))
                self._all_weights.append(names)

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters, a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    def flatten_parameters(self) -> None:
        """Do nothing: there is no device that would want the parameters in one piece."""

    def reset_parameters(self) -> None:
        """Draw new values from U(-k, k), k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes and what differs from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text

    # -- running ------------------------------------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Run over a sequence.

        Args:
            input: (L, N, input_size), (N, L, …) with batch_first, (L, input_size) or a PackedSequence.
            hx: the state before the first step, zeros if None: (layers · directions, N, size); a pair for the LSTM.

        Returns:
            The outputs of the last layer at every step, and the state after the last.
        """
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        name = type(self).__name__
        if input.dim() not in (2, 3):
            raise ValueError(f"{name}: an input of 2 or 3 dimensions is expected, got {input.dim()}")
        batched = input.dim() == 3
        state = self._given_state(hx, 3 if batched else 2)
        if not batched:
            input = input.unsqueeze(1)
            state = state and tuple(s.unsqueeze(1) for s in state)
        elif self.batch_first:
            input = input.transpose(0, 1)
        self._check_input(input)
        state = self._first_state(state, input, input.size(1))
        length, batch = input.size(0), input.size(1)
        data, state = self._run(input.reshape(length * batch, input.size(2)), [batch] * length, state)
        output = data.view(length, batch, data.size(1))
        if not batched:
            output = output.squeeze(1)
            state = tuple(s.squeeze(1) for s in state)
        elif self.batch_first:
            output = output.transpose(0, 1)
        return output, self._returned(state)

    def _run_packed(self, packed: Any, hx: Any) -> Any:
        data, sizes, order, back = packed
        self._check_input(data)
        state = self._given_state(hx, 3)
        if state is not None and order is not None:
            state = tuple(_apply_permutation(s, order) for s in state)
        lengths = sizes.tolist()
        state = self._first_state(state, data, lengths[0])
        out, state = self._run(data, lengths, state)
        if back is not None:
            state = tuple(_apply_permutation(s, back) for s in state)
        return PackedSequence(out, sizes, order, back), self._returned(state)

    def _returned(self, state: tuple[Any, ...]) -> Any:
        return state if self.mode == "LSTM" else state[0]

    def _given_state(self, hx: Any, dims: int) -> tuple[Any, ...] | None:
        if hx is None:
            return None
        state = tuple(hx) if self.mode == "LSTM" else (hx,)
        for s in state:
            if s.dim() != dims:
                raise RuntimeError(f"{type(self).__name__}: a state of {dims} dimensions is expected, got {s.dim()}")
        return state

    def _first_state(self, state: tuple[Any, ...] | None, input: Any, batch: int) -> tuple[Any, ...]:
        """Return the state before the first step by layer and direction, after checking the one that was given."""
        rows = self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(rows, batch, self.proj_size or self.hidden_size)]
        if self.mode == "LSTM":
            shapes.append((rows, batch, self.hidden_size))
        if state is None:
            return tuple([ops.zeros(shape[1:], dtype=input.dtype)] * rows for shape in shapes)
        for s, shape in zip(state, shapes):
            if tuple(s.shape) != shape:
                raise RuntimeError(f"{type(self).__name__}: the state must have shape {shape}, got {tuple(s.shape)}")
        return state

    def _check_input(self, input: Any) -> None:
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype:
            raise ValueError(f"{type(self).__name__}: the input is {input.dtype}, the weights {weight.dtype}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"{type(self).__name__}: input.shape[-1] must be input_size={self.input_size}, got {input.size(-1)}"
            )

    def _run(self, data: Any, lengths: list[int], state: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Run all layers over steps whose batches never grow.

        Args:
            data: (sum of lengths, features), one step after the other.
            lengths: the number of sequences at each step.
            state: each part (layers · directions, N, size), or a list of (N, size).

        Returns:
            The outputs in the form of `data`, and the final state.
        """
        if not lengths:
            raise ShapeError(f"{type(self).__name__}: the sequence must have at least one step, got none")
        finals: list[tuple[Any, ...]] = []
        weights = self.all_weights
        directions = 2 if self.bidirectional else 1
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                data = F.dropout(data, self.dropout, True)
            outs = []
            for direction in range(directions):
                row = layer * directions + direction
                out, end = self._layer(data, lengths, tuple(s[row] for s in state), weights[row], bool(direction))
                outs.append(out)
                finals.append(end)
            data = outs[0] if directions == 1 else ops.cat(outs, -1)
        if len(finals) == 1:
            return data, tuple(ops.unsqueeze(end, 0) for end in finals[0])
        return data, tuple(ops.stack(part, 0) for part in zip(*finals))

    def _layer(
        self, data: Any, lengths: list[int], state: tuple[Any, ...], weights: list[Any], reverse: bool
    ) -> tuple[Any, tuple[Any, ...]]:
        """Run one direction of one layer: as one op, or step by step where there is a projection or a rarer dtype."""
        w_ih, *rest = weights
        biases = rest[1:3] if self.bias else (None, None)
        alike = all(x.dtype is data.dtype for x in (*weights, *state))
        if alike and data.dtype in (float32, float64) and not self.proj_size and lengths and lengths[0]:
            found = self._op(data, *state, w_ih, rest[0], *biases, tuple(lengths), reverse)
            return found[0], found[1 : 1 + len(state)]
        # The inputs of all steps go through one product; only the recurrent one has to wait for its turn.
        gates, step, outs = F.linear(data, w_ih, biases[0]).split(lengths, 0), self._step(rest), {}

        def walked(t: int, before: tuple[Any, ...]) -> tuple[Any, ...]:
            after: tuple[Any, ...] = step(gates[t], before)
            outs[t] = after[0]
            return after

        end = recurrent.walk(walked, recurrent.times(tuple(lengths), reverse), lengths, state)
        return recurrent.joined(outs, 0), end

    def _op(self, *given: Any) -> Any:
        if self.mode in ("LSTM", "GRU"):
            return (ops.lstm_layer if self.mode == "LSTM" else ops.gru_layer)(*given)
        return ops.rnn_layer(*given, self.mode[4:].lower())

    def _step(self, weights: list[Any]) -> Any:
        """Return the function of one step, (gates from the input, state) to the next state."""
        step = _STEPS[self.mode]
        w_hh, b_hh = weights[0], weights[2] if self.bias else None
        if not self.proj_size:
            return lambda gates, state: step(gates, state, w_hh, b_hh)
        w_hr = weights[-1]

        def projected(gates: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
            h, *others = step(gates, state, w_hh, b_hh)
            return (F.linear(h, w_hr), *others)

        return projected


class RNN(RNNBase):
    """A plain recurrent network: h' = tanh(W x + b + U h + c) or relu(…).

    Args:
        args: input_size, hidden_size, num_layers, nonlinearity ("tanh" or "relu"), then those of RNNBase.
        kwargs: the same by name.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("RNN: only the LSTM has proj_size")
        if len(args) > 3:
            nonlinearity = args[3]
            args = (*args[:3], *args[4:])
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """A long short-term memory (Hochreiter and Schmidhuber, 1997); the arguments are those of RNNBase after mode."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """A gated recurrent unit (arXiv:1406.1078); the arguments are those of RNNBase after mode."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("GRU: only the LSTM has proj_size")
        super().__init__("GRU", *args, **kwargs)


# -- cells ------------------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """What the cells share: the parameters of one step."""

    __constants__ = ["input_size", "hidden_size", "bias"]
    weight_ih: Tensor
    weight_hh: Tensor

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        where = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(ops.empty((rows, input_size), **where))
        self.weight_hh = Parameter(ops.empty((rows, hidden_size), **where))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(ops.empty(rows, **where)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values from U(-k, k), k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes and what differs from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _step(self, mode: str, input: Any, state: Any, parts: int) -> tuple[Any, ...]:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: an input of 1 or 2 dimensions is expected, got {input.dim()}")
        if state is None:
            zeros = ops.zeros((*input.shape[:-1], self.hidden_size), dtype=input.dtype)
            state = (zeros,) * parts
        for s in state:
            if s.dim() not in (1, 2):
                raise ValueError(f"{name}: a state of 1 or 2 dimensions is expected, got {s.dim()}")
        gates = F.linear(input, self.weight_ih, self.bias_ih)
        after: tuple[Any, ...] = _STEPS[mode](gates, state, self.weight_hh, self.bias_hh)
        return after


class RNNCell(RNNCellBase):
    """One step of an RNN: (N, input_size) and (N, hidden_size) to (N, hidden_size)."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Return the next state."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: nonlinearity must be 'tanh' or 'relu', got {self.nonlinearity!r}")
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, None if hx is None else (hx,), 1)[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (N, input_size) and a pair of states to a pair of states."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Return the next hidden and cell state."""
        return self._step("LSTM", input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of a GRU: (N, input_size) and (N, hidden_size) to (N, hidden_size)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Return the next state."""
        return self._step("GRU", input, None if hx is None else (hx,), 1)[0]
