"""The ways in which the hand-written loop runs a model: one class a runtime, from pixels as bytes to scores.

Each does its own normalisation, in the layout that suits it, into arrays that are made once. `variant` 1 is the other
layout that an expert would try: frozen TorchScript with channels first, OpenVINO with normalisation in the graph.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]

SIDE = 224
MEAN = np.float32((0.485, 0.456, 0.406))
SPREAD = np.float32((0.229, 0.224, 0.225))
SCALE = (1 / (255 * SPREAD)).astype(np.float32)
SHIFT = (-MEAN / SPREAD).astype(np.float32)
VARIANTS = {"torch": 1, "frozen": 2, "onnxruntime": 1, "openvino": 2}


class Loaded(Protocol):
    """A model, ready for batches of one size."""

    def __call__(self, pixels: Array) -> Array:
        """Scores of N x 224 x 224 x 3 bytes. What it gives is valid until the next call."""


class ChannelsFirst:
    """Normalises into N x 3 x 224 x 224: a multiplication and an addition a channel."""

    def __init__(self, batch: int) -> None:
        self.array = np.empty((batch, 3, SIDE, SIDE), np.float32)

    def __call__(self, pixels: Array) -> Array:
        for image, planes in zip(pixels, self.array, strict=True):  # An image at a time stays in the cache.
            for channel in range(3):
                np.multiply(image[:, :, channel], SCALE[channel], out=planes[channel], dtype=np.float32)
                planes[channel] += SHIFT[channel]
        return self.array


class ChannelsLast:
    """Normalises into N x 224 x 224 x 3: whole rows at a time."""

    def __init__(self, batch: int) -> None:
        self.array = np.empty((batch, SIDE, SIDE, 3), np.float32)
        self._rows = self.array.reshape(batch, SIDE, SIDE * 3)
        self._scale = np.tile(SCALE, SIDE)
        self._shift = np.tile(SHIFT, SIDE)

    def __call__(self, pixels: Array) -> Array:
        for image, rows in zip(pixels.reshape(self._rows.shape), self._rows, strict=True):
            np.multiply(image, self._scale, out=rows, dtype=np.float32)
            rows += self._shift
        return self.array


class Torch:
    """TorchScript as given."""

    def __init__(self, model: Path, threads: int, batch: int, variant: int) -> None:
        import torch

        torch.set_num_threads(threads)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._model = torch.jit.load(model.with_suffix(".pt"), map_location="cpu").eval()
        self._prepared(variant)
        self._normalise = self._layout(batch, variant)
        array = torch.from_numpy(self._normalise.array)
        last = isinstance(self._normalise, ChannelsLast)
        self._input = array.permute(0, 3, 1, 2) if last else array
        self._mode = torch.inference_mode

    def _prepared(self, variant: int) -> None:
        """As given: nothing is done to it."""

    def _layout(self, batch: int, variant: int) -> ChannelsFirst | ChannelsLast:
        return ChannelsFirst(batch)

    def __call__(self, pixels: Array) -> Array:
        self._normalise(pixels)
        with self._mode():
            scores: Array = self._model(self._input).numpy()
        return scores


class Frozen(Torch):
    """TorchScript frozen and optimised; channels last, or first as variant 1."""

    def _prepared(self, variant: int) -> None:
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if variant == 0:
                self._model = self._model.to(memory_format=torch.channels_last)
            self._model = torch.jit.optimize_for_inference(torch.jit.freeze(self._model))

    def _layout(self, batch: int, variant: int) -> ChannelsFirst | ChannelsLast:
        return ChannelsLast(batch) if variant == 0 else ChannelsFirst(batch)


class OnnxRuntime:
    def __init__(self, model: Path, threads: int, batch: int, variant: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(model.with_suffix(".onnx")), options, providers=["CPUExecutionProvider"]
        )
        self._normalise = ChannelsFirst(batch)

    def __call__(self, pixels: Array) -> Array:
        scores: Array = self._session.run(None, {"images": self._normalise(pixels)})[0]
        return scores


class OpenVino:
    """In full precision: what the processor offers below it would give other outputs."""

    def __init__(self, model: Path, threads: int, batch: int, variant: int) -> None:
        import openvino

        core = openvino.Core()
        graph = core.read_model(model.with_suffix(".onnx"))
        graph.reshape([batch, 3, SIDE, SIDE])
        self._normalise = None if variant == 1 else ChannelsFirst(batch)
        if variant == 1:
            graph = _with_normalisation(graph)
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "ENABLE_CPU_PINNING": False,  # Two processes would be pinned to the same core.
        }
        self._request = core.compile_model(graph, "CPU", options).create_infer_request()

    def __call__(self, pixels: Array) -> Array:
        batch = pixels if self._normalise is None else self._normalise(pixels)
        scores: Array = self._request.infer([batch], share_inputs=True, share_outputs=True)[0]
        return scores


def _with_normalisation(graph: Any) -> Any:
    """The same model, for pixels as bytes with the channels last."""
    import openvino

    steps = openvino.preprocess.PrePostProcessor(graph)
    steps.input().tensor().set_element_type(openvino.Type.u8).set_layout(openvino.Layout("NHWC"))
    mean, spread = [float(value) * 255 for value in MEAN], [float(value) * 255 for value in SPREAD]
    steps.input().preprocess().convert_element_type(openvino.Type.f32).mean(mean).scale(spread)
    steps.input().model().set_layout(openvino.Layout("NCHW"))
    return steps.build()


RUNTIMES: dict[str, Any] = {
    "torch": Torch,
    "frozen": Frozen,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
}


def load(runtime: str, model: Path, threads: int, batch: int, variant: int = 0) -> Loaded:
    """`model` without its ending: .pt or .onnx is added."""
    loaded: Loaded = RUNTIMES[runtime](model, threads, batch, variant)
    return loaded


def best_class(scores: Array) -> tuple[Array, Array]:
    """The class of each row and its probability (softmax)."""
    labels = scores.argmax(axis=1)
    highest = scores.max(axis=1, keepdims=True)
    return labels, 1 / np.exp(scores - highest).sum(axis=1)
