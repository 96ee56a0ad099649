"""The writer: tensors become arrays, then tensorboardX writes the event files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sapwood.errors import ArgumentError, MissingError
from sapwood.tensor import Tensor

__all__ = ["SummaryWriter"]


def _writer(*args: Any, **options: Any) -> Any:
    try:
        import tensorboardX
    except ImportError:
        raise MissingError(
            "SummaryWriter: the package tensorboardX is not installed; pip install sapwood[tensorboard]"
        ) from None
    return tensorboardX.SummaryWriter(*args, **options)


def plain(thing: Any) -> Any:
    """Return tensors, also within tuples, lists and dicts, as arrays; 16-bit floats as float32."""
    if isinstance(thing, Tensor):
        t = thing.detach()
        return (t.float() if t.dtype.name in ("float16", "bfloat16") else t).numpy()
    if isinstance(thing, Mapping):
        return {k: plain(v) for k, v in thing.items()}
    return type(thing)(plain(v) for v in thing) if type(thing) in (list, tuple) else thing


def number(tag: str, thing: Any) -> Any:
    """Return a number.

    Raises:
        ArgumentError: a tensor of several elements.
    """
    if isinstance(thing, Tensor):
        if thing.numel() != 1:
            raise ArgumentError(f"add_scalar: {tag} must be one number, got a tensor of shape {tuple(thing.shape)}")
        return thing.item()
    return thing


class SummaryWriter:
    """Write what TensorBoard shows: curves, histograms, images, texts, graphs.

    Args:
        log_dir: the folder of the event files; runs/DATE_HOST unless given.
        comment, purge_step, max_queue, flush_secs, filename_suffix: as in PyTorch's writer.

    Raises:
        MissingError: the package tensorboardX is not installed.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        self._writer = _writer(
            None if log_dir is None else str(log_dir), comment, purge_step, max_queue, flush_secs, filename_suffix
        )
        self.log_dir = self._writer.logdir

    def get_logdir(self) -> str:
        """Return the folder of the event files."""
        return str(self.log_dir)

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None, **ignored: Any
    ) -> None:
        """Add a point to the curve `tag`."""
        self._writer.add_scalar(tag, number(tag, scalar_value), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a point to each of several curves in one chart."""
        values = {k: number(f"{main_tag}/{k}", v) for k, v in tag_scalar_dict.items()}
        self._writer.add_scalars(main_tag, values, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add the distribution of a tensor's elements."""
        self._writer.add_histogram(tag, plain(values).ravel(), global_step, bins, walltime, max_bins)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add a picture: float in [0, 1] or uint8, laid out as `dataformats` says."""
        self._writer.add_image(tag, plain(img_tensor), global_step, walltime, dataformats)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Add a batch of pictures."""
        self._writer.add_images(tag, plain(img_tensor), global_step, walltime, dataformats)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Add a matplotlib figure as a picture."""
        self._writer.add_figure(tag, figure, global_step, close, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add a text, which may be Markdown."""
        self._writer.add_text(tag, text_string, global_step, walltime)

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: int | None = None, num_thresholds: int = 127,
        weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add the curve of precision against recall for labels in {0, 1} and predictions in [0, 1]."""
        self._writer.add_pr_curve(
            tag, plain(labels), plain(predictions), global_step, num_thresholds, plain(weights), walltime
        )

    def add_embedding(self, mat: Any, metadata: Any = None, label_img: Any = None, **options: Any) -> None:
        """Add points (N, D) for the projector, with a word or a picture each."""
        self._writer.add_embedding(plain(mat), metadata, plain(label_img), **options)

    def add_hparams(self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any], **options: Any) -> None:
        """Add a run's settings and what came of them."""
        metrics = {k: number(k, v) for k, v in metric_dict.items()}
        self._writer.add_hparams({k: number(k, v) for k, v in hparam_dict.items()}, metrics, **options)

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False, **ignored: Any) -> None:
        """Add the graph of a module on an example: its calls, with shapes, grouped by submodule.

        Args:
            model: a module.
            input_to_model: a tensor, or a tuple of arguments.
        """
        from sapwood.utils.tensorboard.graph import graph_def

        if input_to_model is None:
            raise ArgumentError("add_graph: a module has a graph only on an input; pass input_to_model")
        example = input_to_model if isinstance(input_to_model, tuple) else (input_to_model,)
        definition = graph_def(model, example)
        from tensorboardX.proto.event_pb2 import Event

        self._writer._get_file_writer().add_event(Event(graph_def=definition.SerializeToString()))
        if verbose:
            print(definition)

    def flush(self) -> None:
        """Write what waits."""
        self._writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files."""
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
