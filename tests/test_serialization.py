"""Files: torch's are read, ours come back as they were, torn and hostile ones are refused."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import stat
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood import nn, serialization
from sapwood.errors import ArgumentError, DtypeError, LoadError, MissingError

GOLDEN = Path(__file__).parent / "golden" / "serialized"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


def matches(value, expected):
    """Assert that a loaded value is what the script that wrote the file says."""
    if "tensor" in expected:
        assert isinstance(value, sapwood.Tensor)
        assert isinstance(value, nn.Parameter) == expected["parameter"]
        assert str(value.dtype) == expected["tensor"]
        assert list(value.shape) == expected["shape"]
        assert list(value.stride()) == expected["stride"]
        assert value.storage_offset() == expected["offset"]
        assert value.requires_grad == expected["requires_grad"]
        a = value.detach().numpy()
        if a.dtype.kind == "c":
            a = np.stack([a.real, a.imag], -1)
        assert a.astype(np.float64).tolist() == expected["values"]
    elif "dict" in expected:
        assert type(value).__name__ == expected["dict"]
        assert [str(k) for k in value] == [k for k, _ in expected["items"]]
        for v, (_, e) in zip(value.values(), expected["items"], strict=True):
            matches(v, e)
    elif "list" in expected:
        assert type(value).__name__ == expected["list"]
        for v, e in zip(value, expected["items"], strict=True):
            matches(v, e)
    else:
        assert repr(value) == expected["value"]


def there_and_back(value, **options):
    file = io.BytesIO()
    sapwood.save(value, file)
    file.seek(0)
    return sapwood.load(file, **options)


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize("weights_only", [True, False])
def test_torch_files_are_read(name, weights_only):
    matches(sapwood.load(GOLDEN / f"{name}.pt", weights_only=weights_only), EXPECTED[name])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_what_was_read_survives_another_trip(name):
    matches(there_and_back(sapwood.load(GOLDEN / f"{name}.pt")), EXPECTED[name])


@pytest.mark.parametrize("name", ["legacy", "unchecked"])
def test_older_and_unchecked_files(name):
    assert sapwood.load(GOLDEN / f"{name}.pt")["w"].tolist() == [1.0, 1.0]


def test_attributes_and_metadata_survive():
    loaded = sapwood.load(GOLDEN / "parameters.pt")
    assert loaded["tagged"].tag == "mine"
    assert loaded["noted"].note == {"k": 1}
    assert loaded["twice"][0] is loaded["twice"][1]
    again = there_and_back(loaded)
    assert again["tagged"].tag == "mine"
    assert again["noted"].note == {"k": 1}
    state = sapwood.load(GOLDEN / "training.pt")["model"]
    assert state._metadata["b"] == {"version": 2}
    assert there_and_back(state)._metadata == state._metadata


def test_torch_state_goes_into_a_model_and_an_optimizer():
    saved = sapwood.load(GOLDEN / "training.pt")
    model = nn.Sequential(OrderedDict(a=nn.Linear(3, 4), b=nn.BatchNorm1d(4), c=nn.Tanh()))
    optimizer = sapwood.optim.Adam(model.parameters(), lr=1.0)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert sapwood.equal(model.a.weight, saved["model"]["a.weight"])
    again = there_and_back({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    assert sapwood.equal(again["optimizer"]["state"][0]["exp_avg"], saved["optimizer"]["state"][0]["exp_avg"]) and list(
        again["model"]
    ) == list(saved["model"])


def test_torch_modules_are_read_when_trusted():
    model = sapwood.load(GOLDEN / "module.pt", weights_only=False)
    assert type(model) is nn.Sequential
    assert model(sapwood.ones(1, 2)).shape == (1, 3)
    assert [type(m) for m in there_and_back(model, weights_only=False)] == [nn.Linear, nn.ReLU]


def test_shared_storages_stay_shared():
    a = sapwood.arange(4.0)
    loaded = there_and_back({"a": a, "v": a[:2]})
    loaded["a"][0] = 9
    assert loaded["v"].tolist() == [9.0, 1.0]
    read = sapwood.load(GOLDEN / "views.pt")
    read["a"][0, 0] = 9
    assert read["zero"].item() == 9
    assert read["t"][0, 0].item() == 9


def test_a_view_saves_its_storage_once():
    big = sapwood.zeros(1000)
    file = io.BytesIO()
    sapwood.save([big[i : i + 2] for i in range(50)], file)
    with zipfile.ZipFile(file) as archive:
        sizes = [i.file_size for i in archive.infolist() if "/data/" in i.filename]
    assert sizes == [4000]


def test_memory_shared_as_two_types_is_refused():
    c = sapwood.zeros(3, dtype=sapwood.complex64)
    with pytest.raises(DtypeError, match="clone one of them"):
        sapwood.save([c, sapwood.view_as_real(c)], io.BytesIO())
    assert there_and_back(sapwood.view_as_real(c)).shape == (3, 2)


def test_layout_of_the_archive():
    file = io.BytesIO()
    sapwood.save({"a": sapwood.ones(3), "b": sapwood.zeros(100, dtype=sapwood.int64)}, file)
    data = file.getvalue()
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == [
            f"archive/{n}" for n in ("data.pkl", "byteorder", "data/0", "data/1", "version")
        ]  # fmt: skip
        assert archive.testzip() is None
        assert archive.read("archive/version") == b"3\n"
        program = archive.read("archive/data.pkl")
        for info in archive.infolist():
            start = (
                info.header_offset
                + 30
                + sum(data[info.header_offset + i] + 256 * data[info.header_offset + i + 1] for i in (26, 28))
            )
            assert start % 64 == 0
            assert data[start : start + info.file_size] == archive.read(info)
    assert b"ctorch._utils\n_rebuild_tensor_v2\n" in program
    assert b"ctorch\nFloatStorage\n" in program
    assert b"sapwood" not in program
    assert program[:2] == b"\x80\x02"


def test_big_endian_files():
    file = io.BytesIO()
    sapwood.save({"f": sapwood.tensor([1.0, 2.0]), "c": sapwood.tensor([1 + 2j]), "b": sapwood.tensor([True])}, file)
    turned = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(turned, "w") as target:
        for n in source.namelist():
            record = source.read(n)
            if n.endswith("byteorder"):
                record = b"big" if sys.byteorder == "little" else b"little"
            elif "/data/" in n and len(record) > 1:
                record = np.frombuffer(record, np.uint32).byteswap().tobytes()
            target.writestr(n, record)
    turned.seek(0)
    loaded = sapwood.load(turned)
    assert loaded["f"].tolist() == [1.0, 2.0]
    assert loaded["c"].tolist() == [1 + 2j]
    assert loaded["b"].tolist() == [True]


# -- refusing ---------------------------------------------------------------------------------------------------------


def test_objects_are_refused_with_two_ways_out():
    for name in ("module", "own"):
        with pytest.raises(LoadError, match=r"weights_only=False.*state_dict\(\)"):
            sapwood.load(GOLDEN / f"{name}.pt")


class Point:
    def __init__(self, x):
        self.x = x


def test_safe_globals():
    file = io.BytesIO()
    sapwood.save({"p": Point(sapwood.ones(1))}, file)
    file.seek(0)
    with pytest.raises(LoadError, match="add_safe_globals"):
        sapwood.load(file)
    with serialization.safe_globals([Point]):
        file.seek(0)
        assert sapwood.load(file)["p"].x.tolist() == [1.0]
        assert serialization.get_safe_globals() == [Point]
    assert serialization.get_safe_globals() == []


def archive_of(program, storages=(), name="archive"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}/data.pkl", program)
        for key, data in enumerate(storages):
            archive.writestr(f"{name}/data/{key}", data)
        archive.writestr(f"{name}/version", "3\n")
    file.seek(0)
    return file


class Evil:
    ran = 0

    def __reduce__(self):
        return exec, ("from tests import nothing",)


def tensor_program(size, stride, offset=0, count=4, kind="FloatStorage"):
    """Return the pickle of one tensor, written by hand."""
    numbers = lambda values: (
        b"(" + b"".join(b"\x8a\x08" + int(v).to_bytes(8, "little", signed=True) for v in values) + b"t"
    )
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n" + kind.encode() + b"\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + numbers([count])[1:-1] + b"tQ"
        + numbers([offset])[1:-1] + numbers(size) + numbers(stride) + b"\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


def test_a_tensor_written_by_hand_is_read():
    data = np.arange(4, dtype=np.float32).tobytes()
    assert sapwood.load(archive_of(tensor_program([2, 2], [2, 1]), [data])).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert sapwood.load(archive_of(tensor_program([3], [0], 1), [data])).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (tensor_program([2, 2], [2, 1], 1), "reaches element 4"),
        (tensor_program([2**40], [1]), "reaches element"),
        (tensor_program([2, -2], [2, 1]), "malformed"),
        (tensor_program([2], [1, 1]), "malformed"),
        (tensor_program([0, 2**62, 2**62], [1, 1, 1]), "cannot have size"),
        (tensor_program([4], [1], count=2**40), "should hold"),
        (tensor_program([4], [1], count=3), "should hold"),
        (tensor_program([1], [1], kind="DoubleStorage"), "should hold"),
        (pickle.dumps(Evil(), 2), "builtins.exec"),
        (b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR.", "os.system"),
        (b"\x80\x02ctorch\nload\n(X\x02\x00\x00\x00lstR.", "torch.load"),
        (b"\x80\x02ctorch\nTensor\n)R.", "cannot be called"),
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}(X\x05\x00\x00\x00__doc__NUb.", "malformed|sets the state"),
        (b"\x80\x02ccollections\nOrderedDict\n}b.", "sets the state"),
        (b"\x80\x02(lp0\n.", "operation LIST"),
        (b"\x80\x02(i__main__\nX\n.", "operation INST"),
        (b"\x80\x02]a.", "malformed"),
        (b"\x80\x02K\x01", "malformed|no end"),
        (b"\x80\x02cbuiltins\nbytearray\n(J\xff\xff\xff\x7ftR.", "malformed"),
        (b"", "malformed|no end"),
    ],
)
def test_hostile_pickles(program, text):
    with pytest.raises(LoadError, match=text):
        sapwood.load(archive_of(program, [b"\0" * 16]))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "empty"),
        (b"hello, this is no file of weights", "no file of save"),
        (pickle.dumps({"a": 1}, 2), "not one of torch.save"),
        (b"PK\x03\x04" + b"\0" * 60, "torn"),
        (b"\x10\0\0\0\0\0\0\0" + b'{"a":1}', "safetensors"),
    ],
)
def test_foreign_files(data, text):
    with pytest.raises(LoadError, match=text):
        sapwood.load(io.BytesIO(data))


def test_other_archives():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(LoadError, match=r"no data\.pkl"):
        sapwood.load(file)
    with pytest.raises(LoadError, match="no record 'data/0'"):
        sapwood.load(archive_of(tensor_program([1], [1])))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02N.")
    with pytest.raises(LoadError, match="compressed"):
        sapwood.load(packed)


@pytest.mark.parametrize("name", ["training", "legacy"])
def test_every_torn_file_is_refused(name):
    data = (GOLDEN / f"{name}.pt").read_bytes()
    step = max(1, len(data) // 150)
    for end in range(0, len(data) - 1, step):
        with pytest.raises(LoadError):
            sapwood.load(io.BytesIO(data[:end]))


def test_damage_is_noticed_or_harmless():
    """Whatever one changed byte does, it is a LoadError or a loaded object, never another exception."""
    data = (GOLDEN / "plain.pt").read_bytes()
    draw = random.Random(0)
    refused = 0
    for _ in range(600):
        damaged = bytearray(data)
        damaged[draw.randrange(len(data))] = draw.randrange(256)
        try:
            sapwood.load(io.BytesIO(bytes(damaged)))
        except LoadError:
            refused += 1
    assert refused > 200


def test_a_changed_weight_is_noticed():
    file = io.BytesIO()
    sapwood.save(sapwood.ones(100), file)
    data = bytearray(file.getvalue())
    data[data.index(np.ones(100, np.float32).tobytes()) + 7] ^= 1
    with pytest.raises(LoadError, match="checksum"):
        sapwood.load(io.BytesIO(bytes(data)))


# -- files ------------------------------------------------------------------------------------------------------------


def test_paths(tmp_path):
    path = tmp_path / "model.pt"
    sapwood.save({"w": sapwood.ones(2)}, path)
    sapwood.save({"w": sapwood.zeros(2)}, str(path))
    assert os.listdir(tmp_path) == ["model.pt"]
    assert sapwood.load(str(path))["w"].tolist() == [0.0, 0.0]
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist()[0] == "model/data.pkl"


def test_mapped_files(tmp_path):
    path = tmp_path / "model.pt"
    sapwood.save({"w": sapwood.arange(1000.0)}, path)
    w = sapwood.load(path, mmap=True)["w"]
    w[0] = 5
    assert w[:2].tolist() == [5.0, 1.0]
    assert sapwood.load(path)["w"][0].item() == 0
    with pytest.raises(ArgumentError, match="path"):
        sapwood.load(io.BytesIO(path.read_bytes()), mmap=True)


def test_permissions_and_links(tmp_path):
    path = tmp_path / "model.pt"
    mask = os.umask(0)
    os.umask(mask)
    sapwood.save(1, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    link = tmp_path / "latest.pt"
    link.symlink_to(path)
    sapwood.save(2, link)
    assert link.is_symlink()
    assert sapwood.load(path) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


class Unpicklable:
    def __reduce__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["pickle", "write", "fsync", "replace"])
def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "model.pt"
    sapwood.save({"w": sapwood.ones(2)}, path)
    before = path.read_bytes()
    value = {"w": sapwood.zeros(1000)}

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    if step == "pickle":
        value["x"] = Unpicklable()
    elif step == "write":
        count = iter(range(3))
        original = zipfile.ZipFile.open
        monkeypatch.setattr(
            zipfile.ZipFile, "open", lambda *a, **k: original(*a, **k) if next(count) < 2 else interrupt()
        )
    else:
        monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        sapwood.save(value, path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.pt"]


def test_the_disk_is_full(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OSError, match="space"):
        sapwood.save(sapwood.zeros(100_000), "/dev/full")


def test_file_objects():
    class Sink:
        def __init__(self):
            self.parts = []

        def write(self, data):
            self.parts.append(bytes(data))
            return len(data)

    sink = Sink()
    sapwood.save([sapwood.ones(2)], sink)
    assert sapwood.load(io.BytesIO(b"".join(sink.parts)))[0].tolist() == [1.0, 1.0]

    class Source:
        def __init__(self, data):
            self.read = io.BytesIO(data).read

    assert sapwood.load(Source(b"".join(sink.parts)))[0].tolist() == [1.0, 1.0]
    with pytest.raises(ArgumentError, match="path or an object"):
        sapwood.save(1, 3)
    with pytest.raises(ArgumentError, match="path or a file"):
        sapwood.load(3)
    with pytest.raises(ArgumentError, match="binary"):
        sapwood.load(io.StringIO("x"))
    with pytest.raises(FileNotFoundError):
        sapwood.load("no such file")
    with pytest.raises(RuntimeError, match="does not exist"):
        sapwood.save(1, "no/such/folder/x.pt")


def test_map_location():
    path = GOLDEN / "views.pt"
    seen = []
    for where in ("cpu", sapwood.device("cpu"), {"cuda:0": "cpu"}, lambda s, place: seen.append(place) or s):
        assert sapwood.load(path, map_location=where)["zero"].item() == 0
    assert seen == ["cpu"]
    for where in ("cuda", {"cpu": "cuda:1"}):
        with pytest.raises(MissingError, match="CPU"):
            sapwood.load(path, map_location=where)
    with pytest.raises(ArgumentError, match="map_location"):
        sapwood.load(path, map_location=1.5)


def test_every_kind_of_tensor_comes_back():
    a = sapwood.arange(24.0).reshape(2, 3, 4)
    backed_by_bytes = sapwood.from_numpy(np.frombuffer(bytearray(16), np.float32))
    value = [a.permute(2, 0, 1), a[:, 1:, ::2], a[0, 0].expand(3, 4), a[:0], sapwood.tensor(True), backed_by_bytes]
    value += [nn.Parameter(a[1]), a.double().requires_grad_() * 2]
    for before, after in zip(value, there_and_back(value), strict=True):
        assert type(after) is type(before)
        assert (after.dtype, after.shape, after.stride()) == (before.dtype, before.shape, before.stride())
        assert after.storage_offset() == before.storage_offset()
        assert after.requires_grad == before.requires_grad
        assert after.is_leaf
        assert sapwood.equal(after, before)
