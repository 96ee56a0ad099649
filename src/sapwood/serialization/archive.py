"""The zip archive around a pickle and its storages: written whole or not at all, read with suspicion."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import ArgumentError, LoadError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_ALIGNMENT = 64
"""Where the bytes of a record start, so that a mapped storage is aligned for any instruction."""
_LOCAL_HEADER = 30
_ZIP64 = 2**32 - 1
_ZIP64_EXTRA = 20


# -- writing ----------------------------------------------------------------------------------------------------------


def write_archive(file: Any, name: str, program: bytes, storages: list[Bytes], byteorder: bool) -> None:
    """Write the records in PyTorch's order."""
    target = file if _can_seek(file) else io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, f"{name}/data.pkl", memoryview(program))
        if byteorder:
            _write(archive, f"{name}/byteorder", memoryview(sys.byteorder.encode()))
        for key, data in enumerate(storages):
            _write(archive, f"{name}/data/{key}", data.data)
        _write(archive, f"{name}/version", memoryview(b"3\n"))
    if target is not file:
        file.write(target.getvalue())


def _can_seek(file: Any) -> bool:
    """Return whether the archive can be written straight into `file`: its offsets count from the file's start."""
    try:
        return bool(file.seekable() and file.tell() == 0)
    except (AttributeError, OSError):
        return False


def _write(archive: zipfile.ZipFile, name: str, data: memoryview) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.file_size = data.nbytes
    large = data.nbytes * 1.05 > zipfile.ZIP64_LIMIT
    file: Any = archive.fp
    start = file.tell() + _LOCAL_HEADER + len(name.encode()) + (_ZIP64_EXTRA if large else 0)
    gap = (-start) % _ALIGNMENT
    if gap:
        # An extra field has four bytes of its own; "FB" is the mark that PyTorch gives its padding.
        gap += _ALIGNMENT if gap < 4 else 0
        info.extra = b"FB" + (gap - 4).to_bytes(2, "little") + b"Z" * (gap - 4)
    with archive.open(info, "w", force_zip64=large) as record:
        record.write(data)


# -- reading ----------------------------------------------------------------------------------------------------------


class Archive:
    """The records of a file.

    Args:
        file: the file, at its start.
        path: its path, where the storages are to be mapped.
    """

    def __init__(self, file: Any, path: str | None = None) -> None:
        self.file = file
        self.path = path
        start = file.tell()
        file.seek(0, os.SEEK_END)
        self.size = file.tell()
        self.legacy: bytes | None = None
        """The whole file, where it is no archive but begins as a pickle: PyTorch's older format."""
        file.seek(start)
        if file.read(1) == b"\x80":
            file.seek(start)
            self.legacy = file.read()
            return
        try:
            self.zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, OSError, NotImplementedError) as problem:
            raise LoadError(self._what_is_it()) from problem
        self.infos = {i.filename: i for i in self.zip.infolist()}
        roots = [n.removesuffix("/data.pkl") for n in self.infos if n.endswith("/data.pkl") and n.count("/") == 1]
        if len(roots) != 1:
            raise LoadError("load: this zip archive holds no data.pkl; it was not written by save")
        self.root = roots[0]
        if f"{self.root}/constants.pkl" in self.infos:
            raise LoadError("load: this is a TorchScript archive, a program; save the module's state_dict instead")
        order = (
            self.read("byteorder").decode("ascii", "replace") if f"{self.root}/byteorder" in self.infos else "little"
        )
        if order not in ("little", "big"):
            raise LoadError(f"load: the byte order must be 'little' or 'big', the file says {order[:20]!r}")
        self.swapped = order != sys.byteorder

    @classmethod
    @contextlib.contextmanager
    def open(cls, f: Any, mapped: bool = False) -> Iterator[Archive]:
        """Open the archive in a path or a file object; a file object stays open."""
        if isinstance(f, str | os.PathLike):
            with open(f, "rb") as file:
                yield Archive(file, os.fspath(f) if mapped else None)
            return
        if not hasattr(f, "read"):
            raise ArgumentError(f"load: f must be a path or a file object opened for reading, got {type(f).__name__}")
        if isinstance(f, io.TextIOBase):
            raise ArgumentError("load: the file must be opened in binary mode: open(path, 'rb')")
        seekable = hasattr(f, "seek") and (not hasattr(f, "seekable") or f.seekable())
        yield Archive(f if seekable else io.BytesIO(f.read()))

    @property
    def program(self) -> bytes:
        """The pickle."""
        return self.read("data.pkl")

    def read(self, name: str) -> bytes:
        """Return a record as bytes."""
        return self.array(name).tobytes()

    def bytes_of(self, name: str) -> int:
        """Return the size of a record, after checking that it can be there.

        Raises:
            LoadError: there is no such record, it is compressed, or it reaches beyond the end of the file.
        """
        info = self.infos.get(f"{self.root}/{name}")
        if info is None:
            raise LoadError(f"load: the file has no record {name!r}; it is torn or was edited")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise LoadError(f"load: the record {name!r} is compressed or encrypted; save never does so")
        end = info.header_offset + _LOCAL_HEADER + info.file_size
        if info.header_offset < 0 or info.compress_size != info.file_size or end > self.size:
            raise LoadError(
                f"load: the record {name!r} claims {info.file_size} bytes that are not in the file of {self.size}; it "
                "is torn"
            )
        return info.file_size

    def array(self, name: str) -> Bytes:
        """Return the bytes of a record in an array of their own, or mapped.

        Raises:
            LoadError: as for `bytes_of`, or its bytes are not those that were written.
        """
        size = self.bytes_of(name)
        info = self.infos[f"{self.root}/{name}"]
        self.file.seek(info.header_offset)
        header = self.file.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
            raise LoadError(f"load: the record {name!r} is not where the archive says; the file is damaged")
        lengths = [int.from_bytes(header[i : i + 2], "little") for i in (26, 28)]
        start = info.header_offset + _LOCAL_HEADER + sum(lengths)
        if start + size > self.size:
            raise LoadError(f"load: the record {name!r} ends {start + size - self.size} bytes after the file")
        if self.path is not None and name.startswith("data/") and size:
            return np.memmap(self.path, np.uint8, "c", start, (size,))
        out = np.empty(size, np.uint8)
        self.file.seek(start)
        read = _read_into(self.file, out)
        if read != size:
            raise LoadError(f"load: the file ended after {read} of the {size} bytes of record {name!r}")
        # PyTorch writes 0 where it was told not to compute checksums.
        if info.CRC and zlib.crc32(out.data) != info.CRC:
            raise LoadError(f"load: the checksum of record {name!r} does not match; the file is damaged")
        return out

    def _what_is_it(self) -> str:
        self.file.seek(0)
        head = self.file.read(16)
        if not head:
            return "load: the file is empty"
        if head[:4] == b"PK\x03\x04":
            return "load: the file begins as a zip archive, but its end is missing; it is torn, load an older copy"
        if head[8:10] == b'{"' or head[8:9] == b"{":
            return "load: this looks like a safetensors file; read it with the package safetensors"
        return f"load: this is no file of save; it begins with {head[:8]!r}"


def _read_into(file: Any, out: Bytes) -> int:
    """Fill `out` from the file; return how many bytes came."""
    view = out.data
    done = 0
    while done < len(view):
        if hasattr(file, "readinto"):
            n = file.readinto(view[done:])
        else:
            chunk = file.read(len(view) - done)
            n = len(chunk)
            view[done : done + n] = chunk
        if not n:
            break
        done += n
    return done
