"""Files that are there whole or not at all, with the permissions that a new file gets."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO

from .errors import SapwoodError


class NoFolderError(SapwoodError, RuntimeError, FileNotFoundError):
    """The folder of the file to write does not exist: PyTorch raises RuntimeError."""


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file beside `path` that takes its place when the block ends well, and vanishes when it does not.

    Raises:
        NoFolderError: the folder does not exist.
        OSError: the file cannot be written.
    """
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    if not os.path.isdir(folder):
        raise NoFolderError(f"save: the folder {folder!r} does not exist; make it first, or correct the path")
    mode = _mode_of(real)
    if mode is not None and not stat.S_ISREG(mode):
        # A pipe or a device cannot be replaced.
        with open(real, "wb") as file:
            yield file
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(real)}.", suffix=".part", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _new_mode() if mode is None else stat.S_IMODE(mode))
        os.replace(temporary, real)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _mode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _new_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: str) -> None:
    """Put the new name on the disk too; where folders cannot be opened (Windows), the system does so."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text in UTF-8, whole or not at all.

    Halves of surrogate pairs, which names may hold and no encoding has, become question marks.
    """
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "replace"))


__all__ = ["NoFolderError", "atomic_file", "write_text"]
