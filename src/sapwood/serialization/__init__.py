"""`save` and `load`: PyTorch's files, written and read without PyTorch.

A file is a zip archive of stored (not compressed) records:

    name/data.pkl    the object as a pickle, in which tensors refer to storages by key
    name/data/<key>  the bytes of each storage; tensors that share one refer to the same key
    name/byteorder   "little" or "big"
    name/version     "3"
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from typing import IO, Any

from ..device import device as Device
from ..errors import ArgumentError, LoadError, MissingError, SapwoodError
from ..files import atomic_file
from . import legacy
from .archive import Archive, write_archive
from .machine import Machine
from .names import add_safe_globals as add_safe_globals
from .names import clear_safe_globals as clear_safe_globals
from .names import get_safe_globals as get_safe_globals
from .names import safe_globals as safe_globals
from .storage import Storages
from .trusting import Unpickler
from .writer import pickled

File = str | os.PathLike[str] | IO[bytes]

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]


def save(
    obj: Any,
    f: File,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    *,
    example: Any = None,
) -> None:
    """Save an object, such as a state_dict, to a file that `load` reads, here and in PyTorch.

    A file given by its path is replaced at once when the new one is whole and on the disk: a save that is interrupted
    leaves the old file as it was.

    Args:
        obj: anything that can be pickled; tensors in it keep sharing their storages.
        f: a path, or an object with a method `write`.
        pickle_protocol: PyTorch reads 2 with weights_only=True.
        example: an input, or a tuple of them, of the module `obj`, whose graph on it is saved with the weights;
            `sapwood.graph.load` reads such a file without the module's code.

    Raises:
        MissingError: another pickle module, or PyTorch's format before 1.6, was asked for.

    Example:
        >>> import io, sapwood
        >>> file = io.BytesIO()
        >>> sapwood.save({"w": sapwood.ones(2)}, file)
        >>> sapwood.load(file)
        {'w': tensor([1., 1.])}
    """
    if example is not None:
        from ..graph.archive import of_module

        obj = of_module(obj, example)
    if pickle_module is not None and getattr(pickle_module, "__name__", "") != "pickle":
        raise MissingError("save: only the module pickle is supported; leave pickle_module out")
    if not _use_new_zipfile_serialization:
        raise MissingError("save: the format before the zip archive can be read, not written; drop the argument")
    program, storages = pickled(obj, pickle_protocol)
    if isinstance(f, str | os.PathLike):
        path = os.fspath(f)
        name = os.path.splitext(os.path.basename(path))[0] or "archive"
        with atomic_file(path) as file:
            write_archive(file, name, program, storages, not _disable_byteorder_record)
    elif hasattr(f, "write"):
        write_archive(f, "archive", program, storages, not _disable_byteorder_record)
    else:
        raise ArgumentError(f"save: f must be a path or an object with a method write, got {type(f).__name__}")


def load(
    f: File,
    map_location: Callable[[Any, str], Any] | Device | str | dict[str, str] | None = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load what `save` wrote, here or in PyTorch.

    By default nothing but tensors, parameters and plain containers is rebuilt, and no code from the file can run.

    Args:
        f: a path, or a binary file object that can seek.
        map_location: accepted as in PyTorch; every tensor comes to the CPU, wherever it was saved.
        weights_only: False unpickles any object. A pickle can run any code: only for files that you trust.
        mmap: map the file, a path, into memory and read tensors as they are used; writes do not reach the file.

    Raises:
        LoadError: the file is torn, foreign, or holds more than weights while weights_only is on.
        MissingError: map_location names another device than the CPU.
    """
    if pickle_module is not None and (weights_only or getattr(pickle_module, "__name__", "") != "pickle"):
        raise MissingError("load: only the module pickle is supported, with weights_only=False; drop pickle_module")
    if weights_only is None:
        weights_only = pickle_module is None and not _environment("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    where = _locator(map_location)
    if mmap and not isinstance(f, str | os.PathLike):
        raise ArgumentError("load: mmap=True maps a file, so that f must be a path; pass the path, or mmap=False")
    with Archive.open(f, mapped=bool(mmap)) as archive:
        try:
            if archive.legacy is not None:
                return legacy.load(archive.legacy, where, weights_only, pickle_load_args)
            storages = Storages(archive, where)
            if weights_only:
                return Machine(storages).run(archive.program)
            return Unpickler(io.BytesIO(archive.program), storages, **pickle_load_args).load()
        except (SapwoodError, MemoryError):
            raise
        except Exception as problem:
            raise LoadError(f"load: unpickling failed: {type(problem).__name__}: {problem}") from problem


def _environment(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "y", "yes", "true")


def _locator(map_location: Any) -> Callable[[Any, str], Any]:
    """Return the function that is told each storage and the place it was saved at."""
    if map_location is None:
        return lambda storage, location: storage
    if isinstance(map_location, dict):
        for target in map_location.values():
            Device(target).require_cpu("load")
        return lambda storage, location: storage
    if isinstance(map_location, str | Device):
        Device(map_location).require_cpu("load")
        return lambda storage, location: storage
    if callable(map_location):
        return lambda storage, location: _chosen(map_location(storage, location), storage)
    raise ArgumentError(
        f"load: map_location must be a device, its name, a dict or a function, got {type(map_location).__name__}"
    )


def _chosen(result: Any, storage: Any) -> Any:
    if result is not None and result is not storage:
        warnings.warn("load: map_location returned another storage; it is not used", UserWarning, stacklevel=2)
    return storage
