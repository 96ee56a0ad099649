"""Datasets, samplers and loaders: PyTorch's stored batches, workers, errors."""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood.utils import data
from sapwood.utils.data import DataLoader, TensorDataset, default_collate, default_convert

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
sys.path[:0] = [str(GOLDEN), str(HERE)]

from data_cases import epochs, loaders, plain  # noqa: E402
from loading import Numbers, Shares  # noqa: E402

STORED = json.loads((GOLDEN / "data.json").read_text())


def test_batches_are_pytorchs():
    sapwood.manual_seed(1)
    count = 0
    for loader, (length, expected) in zip(loaders(sapwood, data), STORED, strict=True):
        assert len(loader) == length
        assert json.loads(json.dumps(epochs(sapwood, loader))) == expected, count
        count += 1
    assert count == len(STORED)


def test_rows_of_tensors_are_the_collated_samples():
    rng = np.random.default_rng(0)
    tensors = [sapwood.tensor(rng.standard_normal(s)) for s in ((20, 3), (20,), (20, 2, 2))]
    whole = TensorDataset(*tensors)
    for dataset in (whole, data.Subset(whole, [3, 1, 19, -1])):
        for batch, slow in zip(DataLoader(dataset, 3), DataLoader(dataset, 3, collate_fn=lambda b: default_collate(b))):
            assert plain(batch) == plain(slow)
    tensors[0].requires_grad_()
    (batch,) = DataLoader(TensorDataset(tensors[0]), 20)
    batch[0].sum().backward()
    assert tensors[0].grad.tolist() == np.ones((20, 3)).tolist()


def test_a_changed_dataset_is_asked_for_its_samples():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return tuple(2 * t for t in super().__getitem__(index))

    (batch,) = DataLoader(Doubled(sapwood.arange(3)), 3)
    assert batch[0].tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([1, 2], ["torch.int64", [1, 2]]),
        ([1.0, 2.0], ["torch.float64", [1.0, 2.0]]),
        ([True, False], ["torch.bool", [True, False]]),
        (["a", "b"], ["a", "b"]),
        ([{"a": 1}, {"a": 2}], {"a": ["torch.int64", [1, 2]]}),
        ([np.float32(1), np.float32(2)], ["torch.float32", [1.0, 2.0]]),
        ([np.arange(2, dtype=np.int16)] * 2, ["torch.int16", [[0, 1], [0, 1]]]),
        ([(1, "x"), (2, "y")], [["torch.int64", [1, 2]], ["x", "y"]]),
    ],
)
def test_collate(samples, expected):
    assert plain(default_collate(samples)) == expected


def test_collate_keeps_types_and_convert_goes_inside():
    pair = namedtuple("pair", "a b")
    assert isinstance(default_collate([pair(1, 2)]), pair)
    assert isinstance(default_collate([[1, 2]]), list)
    assert plain(default_convert({"a": np.arange(2), "b": "x"})) == {"a": ["torch.int64", [0, 1]], "b": "x"}
    with pytest.raises(RuntimeError, match=r"equally many entries, got \[1, 2\]"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="got object"):
        default_collate([object()])


def test_options_that_exclude_each_other():
    numbers = Numbers()
    for options, text in [
        ({"sampler": [1], "shuffle": True}, "exclude each other"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler excludes"),
        ({"batch_size": None, "drop_last": True}, "nothing to drop"),
        ({"batch_size": 0}, "batch_size must be a positive int"),
        ({"num_workers": -1}, "num_workers"),
        ({"prefetch_factor": 2}, "prefetch_factor needs"),
        ({"persistent_workers": True}, "persistent_workers needs"),
    ]:
        with pytest.raises(ValueError, match=text):
            DataLoader(numbers, **options)
    with pytest.raises(ValueError, match="shuffle cannot be given"):
        DataLoader(Shares(), shuffle=True)
    loader = DataLoader(numbers)
    with pytest.raises(ValueError, match="batch_size is fixed"):
        loader.batch_size = 3
    with pytest.raises(AssertionError, match=r"\[3, 4\]"):
        TensorDataset(sapwood.arange(3), sapwood.arange(4))
    with pytest.raises(ValueError, match="sum to 3"):
        data.random_split(numbers, [1, 2])


def test_workers_give_the_batches_in_order_with_their_seeds():
    sapwood.manual_seed(3)
    loader = DataLoader(Numbers(), batch_size=3, num_workers=2, persistent_workers=True)
    batches = [plain(b) for b in loader]
    assert [b[0][1] for b in batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]
    sapwood.manual_seed(3)
    base = sapwood.empty((), dtype=sapwood.int64).random_().item()
    assert [set(b[1][1]) for b in batches] == [{base}, {base + 1}, {base}, {base + 1}]
    pids = {p.pid for p in multiprocessing.active_children()}
    next(iter(loader))
    assert [plain(b) for b in loader] == batches
    assert {p.pid for p in multiprocessing.active_children()} == pids
    del loader
    assert multiprocessing.active_children() == []


def test_worker_errors_name_the_worker_and_end_it():
    with pytest.raises(KeyError, match="worker 1 raised") as problem:
        list(DataLoader(Numbers(bad=5), batch_size=3, num_workers=2))
    assert "no sample 5" in str(problem.value)
    del problem
    with pytest.raises(RuntimeError, match=r"worker 0 .* exit code 7"):
        list(DataLoader(Numbers(dies=1), batch_size=3, num_workers=1))

    class Local(Numbers):
        pass

    with pytest.raises(TypeError, match="cannot be pickled"):
        list(DataLoader(Local(), num_workers=1))


def test_workers_share_an_iterable_dataset():
    batches = [b.tolist() for b in DataLoader(Shares(), batch_size=2, num_workers=2)]
    assert batches == [[0, 1], [100, 101], [2], [102, 103]]
