"""SummaryWriter: PyTorch's names and arguments, tensorboardX's event files."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

import numpy as np

from sapwood.errors import ArgumentError, MissingError, ShapeError, ValueRangeError
from sapwood.utils.tensorboard.arrays import array, plain

__all__ = ["SummaryWriter"]


class SummaryWriter:
    """Write event files that TensorBoard shows.

    Args:
        log_dir: folder of the files; by default runs/<date>_<host><comment>.
        comment: end of the default folder's name.
        purge_step: steps from here on that an earlier, interrupted run wrote are hidden.
        max_queue: events that may wait before they are written.
        flush_secs: seconds after which they are written at the latest.
        filename_suffix: end of the file's name.

    Raises:
        MissingError: tensorboardX is not installed.

    Values may be tensors of any real element type, NumPy arrays or numbers. `global_step` is the position on the
    horizontal axis, `walltime` the time in seconds since 1970 that an event is said to have.
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
        try:
            tensorboardx: Any = importlib.import_module("tensorboardX")
        except ImportError as problem:
            raise MissingError(
                "SummaryWriter: tensorboardX is not installed; install the extra: pip install 'sapwood[tensorboard]'"
            ) from problem
        self.purge_step, self.max_queue = purge_step, max_queue
        self.flush_secs, self.filename_suffix = flush_secs, filename_suffix
        self._writer = tensorboardx.SummaryWriter(
            logdir=None if not log_dir else os.fspath(log_dir),
            comment=comment,
            purge_step=purge_step,
            max_queue=max_queue,
            flush_secs=flush_secs,
            filename_suffix=filename_suffix,
        )
        self.log_dir: str = str(self._writer.logdir)

    def get_logdir(self) -> str:
        """Return the folder that event files are written to."""
        return self.log_dir

    # -- numbers ------------------------------------------------------------------------------------------------

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a number to a curve.

        Args:
            scalar_value: a number, or a tensor of one element.
            new_style, double_precision: accepted for PyTorch's sake; the file holds the plain form either way.

        Raises:
            ShapeError: the tensor has several elements.
        """
        self._writer.add_scalar(tag, number("add_scalar", scalar_value), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add several numbers to one picture of curves; each has event files in a folder of its own."""
        values = {tag: number("add_scalars", value) for tag, value in tag_scalar_dict.items()}
        self._writer.add_scalars(main_tag, values, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Add a run's hyperparameters and what came of them, to be compared with other runs.

        Args:
            hparam_dict: numbers, texts or booleans by name.
            metric_dict: numbers by name.
            hparam_domain_discrete: the values that a hyperparameter may take.
            run_name: of the run's folder; the time unless given.

        Raises:
            ArgumentError: a hyperparameter is of another kind.
            ValueRangeError: a domain lacks the value, or belongs to no hyperparameter.
        """
        values = {name: plain(value) for name, value in hparam_dict.items()}
        for name, value in values.items():
            if not isinstance(value, bool | int | float | str):
                raise ArgumentError(
                    f"add_hparams: {name} is a {type(value).__name__}; expected a number, a text or a boolean"
                )
        metrics = {name: number("add_hparams", value) for name, value in metric_dict.items()}
        for name, domain in (hparam_domain_discrete or {}).items():
            if values.get(name) not in domain:
                raise ValueRangeError(
                    f"add_hparams: hparam_domain_discrete[{name!r}] is {domain}, which does not hold the value "
                    f"{values.get(name)!r}"
                )
        summary: Any = importlib.import_module("tensorboardX.summary")
        head, start, end = summary.hparams(values, metrics)
        if hparam_domain_discrete:
            _write_domains(head, hparam_domain_discrete)
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with type(self)(log_dir=folder) as run:
            for part in (head, start, end):
                run._writer.file_writer.add_summary(part)
            for name, value in metrics.items():
                run.add_scalar(name, value, global_step)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a curve of precision over recall.

        Args:
            labels: (N,), what is true: 0 or 1.
            predictions: (N,), the probability given to 1.
            weights: (N,), by which each is counted.

        Raises:
            ShapeError: labels and predictions differ in size.
        """
        truth, guess = array("add_pr_curve", labels), array("add_pr_curve", predictions)
        if truth.size != guess.size:
            raise ShapeError(f"add_pr_curve: there are {truth.size} labels and {guess.size} predictions")
        factors = None if weights is None else array("add_pr_curve", weights)
        self._writer.add_pr_curve(tag, truth, guess, global_step, num_thresholds, factors, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a curve of precision over recall from counts per threshold."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        columns = [array("add_pr_curve_raw", c) for c in (*counts, precision, recall)]
        factors = None if weights is None else array("add_pr_curve_raw", weights)
        self._writer.add_pr_curve_raw(tag, *columns, global_step, num_thresholds, factors, walltime)

    # -- distributions ------------------------------------------------------------------------------------------

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add the distribution of a tensor's elements; those that are not finite are left out.

        Args:
            bins: "tensorflow", or what `numpy.histogram` takes.

        Raises:
            ValueRangeError: there is no finite element.
        """
        elements = array("add_histogram", values).reshape(-1)
        finite = elements[np.isfinite(elements)]
        if not finite.size:
            raise ValueRangeError(f"add_histogram: {tag} has no finite element to count")
        # Booleans cannot be subtracted, which bins are made by.
        finite = finite.astype(np.int64) if finite.dtype.kind == "b" else finite
        self._writer.add_histogram(tag, finite, global_step, bins, walltime, max_bins)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a distribution that was counted elsewhere; `bucket_limits` are the upper ends."""
        limits, counts = (array("add_histogram_raw", a).tolist() for a in (bucket_limits, bucket_counts))
        if len(limits) != len(counts):
            raise ShapeError(f"add_histogram_raw: there are {len(limits)} limits and {len(counts)} counts")
        self._writer.add_histogram_raw(
            tag, *map(plain, (min, max, num, sum, sum_squares)), limits, counts, global_step, walltime
        )

    # -- pictures, text, sound ----------------------------------------------------------------------------------

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add a picture.

        Args:
            img_tensor: (3, H, W) unless `dataformats` says otherwise; floats in [0, 1], or uint8.
        """
        self._writer.add_image(tag, array("add_image", img_tensor), global_step, walltime, dataformats)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Add a batch of pictures, side by side."""
        self._writer.add_images(tag, array("add_images", img_tensor), global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: list[str] | None = None,
    ) -> None:
        """Add a picture with rectangles drawn on it.

        Args:
            box_tensor: (N, 4), corners xmin, ymin, xmax, ymax in pixels.
        """
        image, boxes = array("add_image_with_boxes", img_tensor), array("add_image_with_boxes", box_tensor)
        self._writer.add_image_with_boxes(
            tag, image, boxes, global_step, walltime, dataformats, labels, rescale=rescale
        )

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Add a Matplotlib figure, or several, as a picture; with `close` they are closed afterwards."""
        self._writer.add_figure(tag, figure, global_step, close, walltime)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Add a moving picture: (N, T, C, H, W), floats in [0, 1] or uint8. Needs the package moviepy."""
        self._writer.add_video(tag, array("add_video", vid_tensor), global_step, fps, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Add a sound: (L,) or (1, L), floats in [-1, 1]. Needs the package soundfile."""
        self._writer.add_audio(tag, array("add_audio", snd_tensor).squeeze(), global_step, sample_rate, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add a text, which TensorBoard reads as Markdown."""
        self._writer.add_text(tag, text_string, global_step, walltime)

    # -- models -------------------------------------------------------------------------------------------------

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Add a model's graph: every operation with shapes and source line, nested by modules.

        Args:
            model: a module, a function of tensors, or a captured Graph.
            input_to_model: an example to run it on once: a tensor, or a tuple of arguments.
            verbose: print the graph as well.
            use_strict_trace: accepted for PyTorch's sake; lists and dicts in and out are always understood.

        Raises:
            ArgumentError: the example is missing.
            CaptureError: the model fails on the example.
        """
        from sapwood.utils.tensorboard.graphs import graph_def

        made = graph_def(model, input_to_model)
        if verbose:
            print(made)
        self._writer.file_writer.add_onnx_graph(made)

    def add_embedding(
        self,
        mat: Any,
        metadata: list[Any] | None = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: list[str] | None = None,
    ) -> None:
        """Add points to the projector.

        Args:
            mat: (N, D), a row per point.
            metadata: N labels, or N lists of them with `metadata_header`.
            label_img: (N, C, H, H), a small picture per point.

        Raises:
            ShapeError: the sizes do not fit each other.
        """
        points = array("add_embedding", mat)
        if points.ndim != 2:
            raise ShapeError(f"add_embedding: mat must be (N, D), got {points.shape}")
        pictures = None if label_img is None else array("add_embedding", label_img)
        for name, given in (("metadata", metadata), ("label_img", pictures)):
            if given is not None and len(given) != len(points):
                raise ShapeError(f"add_embedding: {name} has {len(given)} entries for {len(points)} points")
        if pictures is not None and (pictures.ndim != 4 or pictures.shape[2] != pictures.shape[3]):
            raise ShapeError(f"add_embedding: label_img must be (N, C, H, H), got {pictures.shape}")
        self._writer.add_embedding(points, metadata, pictures, global_step, tag, metadata_header)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: dict[str, Any] | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add points or triangles in space.

        Args:
            vertices: (B, N, 3), positions.
            colors: (B, N, 3), 0 to 255.
            faces: (B, M, 3), numbers of vertices.
        """
        given = [None if a is None else array("add_mesh", a) for a in (vertices, colors, faces)]
        self._writer.add_mesh(tag, *given, config_dict, global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, Any]) -> None:
        """Say which curves TensorBoard draws together: {category: {title: ["Multiline", [tag, …]]}}."""
        self._writer.add_custom_scalars(layout)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Have several curves drawn in one picture."""
        self._writer.add_custom_scalars_multilinechart(tags, category, title)

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Have three curves drawn as a value between its bounds."""
        self._writer.add_custom_scalars_marginchart(tags, category, title)

    # -- the file -----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write to the disk what tensorboardX has taken from its queue so far; only `close` waits for all of it."""
        self._writer.flush()

    def close(self) -> None:
        """Write what waits and close the files."""
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def number(what: str, value: Any) -> float:
    """Return a number or a tensor of one element as a float.

    Raises:
        ShapeError: there are several elements.
    """
    found = array(what, value)
    if found.size != 1:
        raise ShapeError(f"{what}: expected a number or a tensor of one element, got shape {found.shape}")
    return float(found.item())


def _write_domains(head: Any, domains: dict[str, list[Any]]) -> None:
    """Write which values hyperparameters may take into the summary that describes them."""
    plugin: Any = importlib.import_module("tensorboardX.proto.plugin_hparams_pb2")
    content = head.value[0].metadata.plugin_data
    data = plugin.HParamsPluginData.FromString(content.content)
    for info in data.experiment.hparam_infos:
        for value in domains.get(info.name, ()):
            entry = info.domain_discrete.values.add()
            if isinstance(value, bool):
                entry.bool_value = value
            elif isinstance(value, str):
                entry.string_value = value
            else:
                entry.number_value = value
    content.content = data.SerializeToString()
