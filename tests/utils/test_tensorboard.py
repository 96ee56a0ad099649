"""Event files, read back."""

from __future__ import annotations

import pytest

import sapwood
from sapwood import nn
from sapwood.errors import ArgumentError

pytest.importorskip("tensorboardX", reason="event files are written by the package tensorboardX")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")


def events(folder):
    import struct

    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(folder.rglob("events.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            found.append(Event.FromString(data[at + 12 : at + 12 + length]))
            at += 16 + length
    return found


@pytest.fixture
def writer(tmp_path):
    from sapwood.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path / "run") as w:
        yield w


def values(writer, tmp_path):
    writer.close()
    return {v.tag: v for e in events(tmp_path / "run") if e.HasField("summary") for v in e.summary.value}


def test_numbers_and_distributions(writer, tmp_path):
    writer.add_scalar("loss", sapwood.tensor(0.5, requires_grad=True), 3)
    writer.add_scalar("loss16", sapwood.tensor(0.25, dtype=sapwood.bfloat16), 3)
    writer.add_histogram("w", sapwood.arange(10.0), 3)
    writer.add_text("note", "a *word*")
    writer.add_scalars("both", {"a": sapwood.tensor(1.0), "b": 2.0}, 1)
    found = values(writer, tmp_path)
    assert found["loss"].simple_value == 0.5
    assert found["loss16"].simple_value == 0.25
    assert found["w"].histo.num == 10
    assert found["w"].histo.max == 9
    assert sum(found["w"].histo.bucket) == 10
    (text,) = found["note/text_summary"].tensor.string_val
    assert text == b"a *word*"
    # Each curve of a group is a run of its own, in a folder below the run's.
    curves = {
        folder.name: [v.simple_value for e in events(folder) for v in e.summary.value]
        for folder in (tmp_path / "run" / "both").iterdir()
    }
    assert curves == {"a": [1.0], "b": [2.0]}


def test_pictures(writer, tmp_path):
    writer.add_image("one", sapwood.rand(3, 4, 5))
    writer.add_images("many", sapwood.randint(0, 255, (2, 3, 4, 5), dtype=sapwood.uint8))
    found = values(writer, tmp_path)
    assert (found["one"].image.height, found["one"].image.width) == (4, 5)
    assert found["many"].image.encoded_image_string[:4] == b"\x89PNG"


def test_a_figure(writer, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot", reason="figures are drawn by matplotlib")
    plt.switch_backend("Agg")
    figure, axes = plt.subplots(figsize=(2, 1), dpi=50)
    axes.plot(sapwood.arange(3.0))
    writer.add_figure("fit", figure, 2)
    picture = values(writer, tmp_path)["fit"].image
    assert (picture.height, picture.width) == (50, 100)
    assert picture.encoded_image_string[:4] == b"\x89PNG"
    assert not plt.fignum_exists(figure.number)


def test_curves_and_settings(writer, tmp_path):
    writer.add_pr_curve("pr", sapwood.tensor([0, 1, 1]), sapwood.tensor([0.1, 0.8, 0.4]))
    writer.add_hparams({"lr": 0.1, "name": "x"}, {"loss": sapwood.tensor(0.5)})
    found = values(writer, tmp_path)
    assert "pr" in found
    assert found["loss"].simple_value == 0.5
    assert any("hparams" in tag for tag in found)


def test_the_graph(writer, tmp_path):
    from tensorboardX.proto.graph_pb2 import GraphDef

    writer.add_graph(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), sapwood.ones(2, 4))
    writer.close()
    (event,) = [e for e in events(tmp_path / "run") if e.graph_def]
    nodes = {n.name: n for n in GraphDef.FromString(event.graph_def).node}
    assert nodes["Sequential/0/addmm"].op == "addmm"
    assert "Sequential/0/bias" in nodes["Sequential/0/addmm"].input
    shape = nodes["Sequential/1/relu"].attr["_output_shapes"].list.shape[0]
    assert [d.size for d in shape.dim] == [2, 3]
    assert nodes["output.0"].input == ["Sequential/1/relu"]


def test_bad_input(writer):
    with pytest.raises(ArgumentError, match="one number"):
        writer.add_scalar("x", sapwood.ones(2))
    with pytest.raises(ArgumentError, match="input_to_model"):
        writer.add_graph(nn.ReLU())
