"""Event files written by SummaryWriter, read back record by record with tensorboardX's protocol buffers."""

from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest

import sapwood
from sapwood import nn
from sapwood.errors import ArgumentError, CaptureError, DtypeError, MissingError, ShapeError, ValueRangeError
from sapwood.utils.tensorboard import SummaryWriter

tensorboardX = pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
REAL = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
]  # fmt: skip


def events(folder):
    """Return the events of all files in a folder; each record's length and checksums are checked."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    found = []
    for path in sorted(folder.glob("events*")):
        data = path.read_bytes()
        while data:
            (size,), head, body = struct.unpack("Q", data[:8]), data[:8], data[12:]
            assert struct.unpack("I", data[8:12]) == (masked_crc32c(head),)
            assert struct.unpack("I", body[size : size + 4]) == (masked_crc32c(body[:size]),)
            found.append(Event.FromString(body[:size]))
            data = body[size + 4 :]
    return found


def values(folder):
    return [(e.step, v) for e in events(folder) if e.HasField("summary") for v in e.summary.value]


@pytest.fixture
def writer(tmp_path):
    with SummaryWriter(tmp_path / "run") as opened:
        opened.folder = tmp_path / "run"
        yield opened


def written(writer):
    """Close, because tensorboardX's `flush` does not wait for events that are still in its queue."""
    writer.close()
    return values(writer.folder)


@pytest.mark.parametrize("name", REAL)
def test_scalar_of_every_dtype(writer, name):
    writer.add_scalar("a", sapwood.tensor(1, dtype=getattr(sapwood, name)), 3)
    writer.add_scalar("a", sapwood.tensor([[1]], dtype=getattr(sapwood, name)), global_step=4)
    assert [(step, v.tag, v.simple_value) for step, v in written(writer)] == [(3, "a", 1.0), (4, "a", 1.0)]


def test_scalar_that_has_a_graph(writer):
    w = sapwood.tensor([2.0], requires_grad=True)
    writer.add_scalar("loss", (w * w).sum(), 0, walltime=12.5)
    assert written(writer)[0][1].simple_value == 4.0
    assert [e.wall_time for e in events(writer.folder) if e.HasField("summary")] == [12.5]


def test_scalar_keeps_nan(writer):
    writer.add_scalar("loss", float("nan"), 1)
    assert np.isnan(written(writer)[0][1].simple_value)


def test_scalar_that_is_none(writer):
    with pytest.raises(ShapeError, match=r"add_scalar: expected a number or a tensor of one element, got shape \(2,\)"):
        writer.add_scalar("a", sapwood.ones(2))
    with pytest.raises(DtypeError, match=r"add_scalar: complex values"):
        writer.add_scalar("a", sapwood.tensor(1j))
    with pytest.raises(DtypeError, match=r"add_scalar: expected numbers"):
        writer.add_scalar("a", "one")


def test_scalars(writer):
    writer.add_scalars("loss", {"train": sapwood.tensor(1.0), "test": 2}, 5)
    writer.close()
    for name, number in ("train", 1.0), ("test", 2.0):
        ((step, v),) = values(writer.folder / "loss" / name)
        assert (step, v.tag, v.simple_value) == (5, "loss", number)


@pytest.mark.parametrize("name", REAL)
def test_histogram_of_every_dtype(writer, name):
    writer.add_histogram("h", sapwood.tensor([[0, 1], [1, 1]], dtype=getattr(sapwood, name)), 2)
    ((step, v),) = written(writer)
    h = v.histo
    assert (step, h.min, h.max, h.num, h.sum, h.sum_squares) == (2, 0.0, 1.0, 4.0, 3.0, 3.0)
    assert sum(h.bucket) == 4.0


def test_histogram_leaves_out_what_is_not_finite(writer):
    writer.add_histogram("h", sapwood.tensor([1.0, float("nan"), float("inf"), 3.0]))
    with pytest.raises(ValueRangeError, match="h has no finite element"):
        writer.add_histogram("h", sapwood.tensor([float("nan")]))
    ((_, v),) = written(writer)
    assert (v.histo.num, v.histo.max) == (2.0, 3.0)


def test_histogram_of_many_float16(writer):
    writer.add_histogram("h", sapwood.full((70_000,), 10.0, dtype=sapwood.float16))
    assert written(writer)[0][1].histo.sum == 700_000.0


def test_histogram_raw(writer):
    counts = sapwood.tensor([1, 2])
    writer.add_histogram_raw("h", 0.0, sapwood.tensor(2.0), 3, 4.0, 6.0, [1.0, 2.0], counts, 1)
    with pytest.raises(ShapeError, match="2 limits and 1 counts"):
        writer.add_histogram_raw("h", 0, 2, 3, 4, 6, [1, 2], [1])
    h = written(writer)[0][1].histo
    assert (list(h.bucket_limit), list(h.bucket), h.max) == ([1.0, 2.0], [1.0, 2.0], 2.0)


@pytest.mark.parametrize("name", ["uint8", "float32", "float64", "bfloat16", "float16"])
def test_image(writer, name):
    pytest.importorskip("PIL", reason="Pillow is not installed")
    import io

    from PIL import Image

    one = 255 if name == "uint8" else 1
    image = sapwood.zeros(3, 4, 5, dtype=getattr(sapwood, name))
    image[0] = one
    writer.add_image("i", image, 7)
    ((step, v),) = written(writer)
    assert (step, v.image.height, v.image.width) == (7, 4, 5)
    decoded = np.asarray(Image.open(io.BytesIO(v.image.encoded_image_string)))
    assert (decoded.reshape(-1, 3) == [255, 0, 0]).all()


def test_images_and_boxes(writer):
    pytest.importorskip("PIL", reason="Pillow is not installed")
    writer.add_images("batch", sapwood.rand(4, 3, 2, 2))
    writer.add_image("gray", sapwood.rand(2, 6), dataformats="HW")
    writer.add_image_with_boxes("boxes", sapwood.rand(3, 20, 20), sapwood.tensor([[2, 2, 9, 9]]), rescale=1)
    sizes = {v.tag: (v.image.height, v.image.width) for _, v in written(writer)}
    assert sizes["gray"] == (2, 6)
    assert sizes["boxes"] == (20, 20)
    assert "batch" in sizes


def test_figure(writer):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="Matplotlib is not installed")
    figure = pyplot.figure(figsize=(2, 1), dpi=50)
    writer.add_figure("f", figure, 1)
    ((_, v),) = written(writer)
    assert (v.image.height, v.image.width) == (50, 100)
    assert not pyplot.fignum_exists(figure.number)


def test_text(writer):
    writer.add_text("t", "some **text**", 1)
    ((step, v),) = written(writer)
    assert (step, v.metadata.plugin_data.plugin_name) == (1, "text")
    assert v.tensor.string_val[0] == b"some **text**"


def hparams_of(folder):
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    found = {}
    for _, v in values(folder):
        if v.metadata.plugin_data.plugin_name == "hparams":
            found[v.tag.rpartition("/")[2]] = HParamsPluginData.FromString(v.metadata.plugin_data.content)
    return found


def test_hparams(writer):
    writer.add_hparams(
        {"lr": sapwood.tensor(0.5), "batch": np.int64(8), "name": "adam", "nesterov": True},
        {"hparam/loss": sapwood.tensor(0.25)},
        hparam_domain_discrete={"lr": [0.5, 1.0], "name": ["adam", "sgd"]},
        run_name="first",
        global_step=9,
    )
    folder = writer.folder / "first"
    told = hparams_of(folder)
    start = told["session_start_info"].session_start_info.hparams
    assert start["lr"].number_value == 0.5
    assert start["batch"].number_value == 8.0
    assert start["name"].string_value == "adam"
    assert start["nesterov"].bool_value is True
    infos = {i.name: i for i in told["experiment"].experiment.hparam_infos}
    assert [v.number_value for v in infos["lr"].domain_discrete.values] == [0.5, 1.0]
    assert [v.string_value for v in infos["name"].domain_discrete.values] == ["adam", "sgd"]
    assert [(s, v.simple_value) for s, v in values(folder) if v.tag == "hparam/loss"] == [(9, 0.25)]


def test_hparams_that_are_none(writer):
    with pytest.raises(ArgumentError, match="add_hparams: lr is a list"):
        writer.add_hparams({"lr": [0.1]}, {})
    with pytest.raises(ValueRangeError, match="does not hold the value"):
        writer.add_hparams({"lr": 0.1}, {}, {"lr": [1.0]})


def test_pr_curve(writer):
    from tensorboardX.proto.plugin_pr_curve_pb2 import PrCurvePluginData

    labels, guess = sapwood.tensor([0, 1, 1, 0]), sapwood.tensor([0.1, 0.9, 0.8, 0.7], dtype=sapwood.bfloat16)
    writer.add_pr_curve("pr", labels, guess, 1, num_thresholds=11)
    with pytest.raises(ShapeError, match="4 labels and 3 predictions"):
        writer.add_pr_curve("pr", labels, guess[:3])
    ((_, v),) = written(writer)
    assert PrCurvePluginData.FromString(v.metadata.plugin_data.content).num_thresholds == 11
    table = np.array(v.tensor.float_val).reshape(6, 11)
    truth, probability = np.array([0, 1, 1, 0]), np.array([0.1, 0.9, 0.8, 0.7])
    # Thresholds are 0, 0.1, …; at 0.5 all true ones are found and one false one.
    assert table[0][5] == ((probability >= 0.5) & (truth == 1)).sum() == 2
    assert table[1][5] == ((probability >= 0.5) & (truth == 0)).sum() == 1
    assert table[4][5] == pytest.approx(2 / 3)


def test_pr_curve_raw(writer):
    columns = [sapwood.tensor(c) for c in ([2.0, 1.0], [1.0, 0.0], [1.0, 2.0], [0.0, 1.0], [0.5, 1.0], [1.0, 0.5])]
    writer.add_pr_curve_raw("pr", *columns, num_thresholds=2)
    assert list(written(writer)[0][1].tensor.float_val)[:4] == [2.0, 1.0, 1.0, 0.0]


def test_embedding(writer):
    points = sapwood.arange(6, dtype=sapwood.bfloat16).reshape(3, 2)
    writer.add_embedding(points, metadata=["a", "b", "c"], global_step=1, tag="e")
    folder = writer.folder / "00001" / "e"
    assert np.loadtxt(folder / "tensors.tsv").tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert (folder / "metadata.tsv").read_text().split() == ["a", "b", "c"]
    assert "00001/e/tensors.tsv" in (writer.folder / "projector_config.pbtxt").read_text()


def test_embedding_with_pictures(writer):
    pytest.importorskip("PIL", reason="Pillow is not installed")
    writer.add_embedding(sapwood.rand(4, 2), label_img=sapwood.rand(4, 3, 8, 8), global_step=2, tag="p")
    assert (writer.folder / "00002" / "p" / "sprite.png").stat().st_size > 0


def test_embedding_of_sizes_that_do_not_fit(writer):
    with pytest.raises(ShapeError, match=r"mat must be \(N, D\), got \(3,\)"):
        writer.add_embedding(sapwood.ones(3))
    with pytest.raises(ShapeError, match="metadata has 1 entries for 3 points"):
        writer.add_embedding(sapwood.ones(3, 2), metadata=["a"])
    with pytest.raises(ShapeError, match="label_img must be"):
        writer.add_embedding(sapwood.ones(3, 2), label_img=sapwood.ones(3, 1, 2, 3))


def test_mesh_and_layout(writer):
    writer.add_mesh("m", sapwood.rand(1, 4, 3), colors=sapwood.randint(0, 255, (1, 4, 3)), faces=None)
    writer.add_custom_scalars({"c": {"t": ["Multiline", ["a", "b"]]}})
    tags = [v.tag for _, v in written(writer)]
    assert "custom_scalars__config__" in tags
    assert any(t.startswith("m") for t in tags)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.second(self.first(x).relu())


def graph_of(writer):
    from tensorboardX.proto.graph_pb2 import GraphDef

    writer.close()
    (event,) = [e for e in events(writer.folder) if e.graph_def]
    return GraphDef.FromString(event.graph_def)


def test_graph(writer):
    model = nn.Sequential(Block())
    writer.add_graph(model, sapwood.ones(3, 4))
    made = graph_of(writer)
    nodes = {n.name: n for n in made.node}
    assert len(nodes) == len(made.node)
    for node in made.node:
        for name in node.input:
            assert name.partition(":")[0] in nodes, f"{node.name} reads {name}, which is not there"
    weight = nodes["Sequential/0/first/weight"]
    assert (weight.op, [d.size for d in weight.attr["_output_shapes"].list.shape[0].dim]) == ("Parameter", [8, 4])
    relu = next(n for n in made.node if n.op == "relu")
    assert relu.name.startswith("Sequential/0/")
    assert [d.size for d in relu.attr["_output_shapes"].list.shape[0].dim] == [3, 8]
    assert relu.attr["T"].type == 1
    assert "test_tensorboard.py:" in relu.attr["line"].s.decode()
    assert [n.op for n in made.node if n.op in ("Input", "Output")] == ["Input", "Output"]


def test_graph_with_several_outputs_and_one_module_twice(writer):
    linear = nn.Linear(2, 2)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = linear

        def forward(self, x, y):
            low, high = self.linear(self.linear(x)).chunk(2, dim=1)
            return {"low": low, "high": high + y}

    writer.add_graph(Twice(), (sapwood.ones(3, 2), sapwood.ones(1, dtype=sapwood.bfloat16)))
    made = graph_of(writer)
    names = [n.name for n in made.node]
    assert len(set(names)) == len(names)
    assert [n for n in names if n.startswith("output")] == ["output/0", "output/1"]
    assert any(n.startswith("Twice/linear_1/") for n in names)
    read = {i for n in made.node for i in n.input}
    assert all(i.partition(":")[0] in names for i in read)
    assert any(":1" in i for i in read)


def test_graph_from_capture_and_verbose(writer, capsys):
    graph = sapwood.graph.capture(lambda x: (x * 2).relu(), sapwood.ones(3), name="twice")
    writer.add_graph(graph, verbose=True)
    assert [n.op for n in graph_of(writer).node] == ["Input", "mul", "relu", "Output"]
    assert "twice/mul" in capsys.readouterr().out


def test_graph_that_cannot_be_taken(writer):
    with pytest.raises(ArgumentError, match="add_graph: expected an example input"):
        writer.add_graph(Block())
    with pytest.raises(CaptureError, match="raised"):
        writer.add_graph(Block(), sapwood.ones(3, 5))


def test_default_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_lr1") as writer:
        writer.add_scalar("a", 1)
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("_lr1")
    assert str(writer.log_dir) == writer.get_logdir() == f"runs/{folder.name}"


def test_purge_step(tmp_path):
    from tensorboardX.proto.event_pb2 import SessionLog

    with SummaryWriter(tmp_path, purge_step=5) as writer:
        writer.add_scalar("a", 1, 5)
    assert any(e.session_log.status == SessionLog.START and e.step == 5 for e in events(tmp_path))


def test_without_tensorboardx(monkeypatch, tmp_path):
    for name in [n for n in sys.modules if n.partition(".")[0] == "tensorboardX"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MissingError, match=r"sapwood\[tensorboard\]"):
        SummaryWriter(tmp_path)


def test_importing_it_loads_nothing_heavy():
    code = (
        "import sys, sapwood.utils.tensorboard; "
        "print([m for m in ('tensorboardX', 'google.protobuf', 'PIL') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_a_pytorch_program_finds_it(tmp_path):
    code = (
        "import sapwood.compat; sapwood.compat.install()\n"
        "import torch\nfrom torch.utils.tensorboard import SummaryWriter\n"
        f"with SummaryWriter({str(tmp_path)!r}) as w: w.add_scalar('a', torch.ones(()), 1)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [v.simple_value for _, v in values(tmp_path)] == [1.0]
