"""Layers against PyTorch's: printed form, names and order of the state, first values, outputs.

nn.json was written by tests/golden/make_nn.py with torch 2.13.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from make_nn import describe

import sapwood
from sapwood import nn

CASES = json.loads((Path(__file__).parent.parent / "golden" / "nn.json").read_text())


@pytest.fixture(scope="module")
def described():
    """The description of each case, made once."""
    found = {}

    def of(case):
        key = case["made"], case["inputs"]
        if key not in found:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[key] = describe(sapwood, *key)
        return found[key]

    return of


@pytest.mark.parametrize("case", CASES, ids=[c["made"] for c in CASES])
def test_layer_is_pytorchs(case, described):
    got = described(case)
    assert got["repr"] == case["repr"]
    assert list(got["state"]) == list(case["state"])
    for name, (shape, values) in case["state"].items():
        # After one forward pass in training: draws are equal to the bit, running statistics up to rounding.
        assert got["state"][name][0] == shape
        np.testing.assert_allclose(got["state"][name][1], values, rtol=0 if "running" not in name else 1e-6)
    assert got["next"] == case["next"], "another number of random draws was taken"
    for (shape, values), (got_shape, got_values) in zip(case.get("out", ()), got.get("out", ()), strict=True):
        assert got_shape == shape
        np.testing.assert_allclose(got_values, values, rtol=1e-5, atol=1e-6)


def test_lazy_layers_become_the_layer_they_stand_for():
    with pytest.warns(UserWarning, match="lazy"):
        lazy = nn.LazyLinear(3)
    assert repr(lazy) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    with pytest.raises(RuntimeError, match="no shape yet"):
        lazy.weight.shape  # noqa: B018
    sapwood.manual_seed(1)
    lazy(sapwood.ones(2, 4))
    assert type(lazy) is nn.Linear
    sapwood.manual_seed(1)
    assert sapwood.equal(lazy.weight, nn.Linear(4, 3).weight)


def test_lazy_layer_takes_shapes_from_a_state():
    with pytest.warns(UserWarning, match="lazy"):
        lazy = nn.LazyLinear(3)
    lazy.load_state_dict(nn.Linear(5, 3).state_dict())
    assert lazy.weight.shape == (3, 5)


def test_batch_norm_counts_batches_only_in_training():
    norm = nn.BatchNorm1d(2)
    norm(sapwood.ones(3, 2))
    norm.eval()(sapwood.ones(3, 2))
    assert norm.num_batches_tracked.item() == 1


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "multiple of groups"),
        (lambda: nn.Conv2d(2, 4, 3, padding="same", stride=2), ValueError, "stride 1"),
        (lambda: nn.Conv2d(2, 4, 3, padding_mode="x"), ValueError, "padding_mode"),
        (lambda: nn.ConvTranspose2d(1, 1, 2, padding_mode="reflect"), ValueError, "padding_mode"),
        (lambda: nn.ConvTranspose2d(1, 1, 3, 2)(sapwood.ones(1, 1, 2, 2), (9, 9)), ValueError, "out of reach"),
        (lambda: nn.Dropout(2), ValueError, "probability"),
        (lambda: nn.BatchNorm2d(3)(sapwood.ones(2, 3)), ValueError, "4 dimensions"),
        (lambda: nn.GroupNorm(2, 3), ValueError, "groups"),
        (lambda: nn.Embedding(4, 2, padding_idx=7), AssertionError, "padding_idx"),
        (lambda: nn.Hardtanh(3, 1), AssertionError, "max_val"),
        (lambda: nn.LSTM(0, 3), ValueError, "input_size"),
        (lambda: nn.LSTM(2, 3)(sapwood.ones(4, 1, 5)), RuntimeError, "input_size=2"),
        (lambda: nn.MultiheadAttention(5, 2), AssertionError, "heads"),
        (lambda: nn.TripletMarginLoss(margin=0), ValueError, "margin"),
        (lambda: nn.Unflatten(1, 4), TypeError, "unflattened_size"),
        (lambda: nn.init.calculate_gain("x"), ValueError, "nonlinearity"),
        (lambda: nn.init.xavier_uniform_(sapwood.ones(3)), ValueError, "2 or more dimensions"),
    ],
)
def test_wrong_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_packed_sequences_give_what_each_sequence_alone_gives():
    net = nn.LSTM(2, 3, num_layers=2, bidirectional=True)
    sequences = [sapwood.randn(n, 2) for n in (3, 5, 2)]
    packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    out, (h, c) = net(packed)
    for k, (sequence, got) in enumerate(zip(sequences, nn.utils.rnn.unpack_sequence(out))):
        alone, (h1, c1) = net(sequence)
        for a, b in ((got, alone), (h[:, k], h1), (c[:, k], c1)):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_clip_grad_norm_scales_all_gradients_together():
    a, b = nn.Parameter(sapwood.zeros(1)), nn.Parameter(sapwood.zeros(1))
    a.grad, b.grad = sapwood.tensor([3.0]), sapwood.tensor([4.0])
    assert nn.utils.clip_grad_norm_([a, b], 1.0).item() == 5.0
    np.testing.assert_allclose([a.grad.item(), b.grad.item()], [0.6, 0.8], rtol=1e-6)
    a.grad = sapwood.tensor([float("inf")])
    with pytest.raises(RuntimeError, match="inf"):
        nn.utils.clip_grad_norm_([a, b], 1.0, error_if_nonfinite=True)


def test_parameters_as_one_vector_and_back():
    layer = nn.Linear(2, 2)
    assert nn.utils.parameters_to_vector(layer.parameters()).shape == (6,)
    nn.utils.vector_to_parameters(sapwood.arange(6.0), layer.parameters())
    assert layer.weight.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert layer.bias.tolist() == [4.0, 5.0]
