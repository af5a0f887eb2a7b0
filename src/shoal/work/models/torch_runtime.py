"""TorchScript in torch: loading, freezing, running. Never unpickles: `torch.jit.load` runs TorchScript alone."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from shoal.work.models.batch_fit import ArrayPredictor
from shoal.work.protocols import Tensor

if TYPE_CHECKING:
    from shoal.work.protocols import Array


_CHANNELS = re.compile(r"to have (\d+) channels?, but got (\d+) channels?")
_MODES = {"1": "L", "3": "RGB"}
CONTEXT_BYTES = 512 << 20
"""What a process takes of a GPU besides its arrays, about: torch does not count it."""


def load_module(path: str, device: str = "cpu", precision: str = "float32") -> Any:
    """The module of a TorchScript file, ready for inference. Raises what torch raises."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Otherwise code is compiled for each new size of a batch: 0.1 s each on a GPU, and no faster after that.
        torch.jit.set_fusion_strategy([])
        module = torch.jit.load(path, map_location=device)
        if hasattr(module, "training"):  # A module that was frozen before it was saved has no such mark.
            module.eval()
        if precision != "float32":
            module.to(getattr(torch, precision))
    return module


def freeze(module: Any, *, fused: bool) -> Any:
    """The same with its weights as constants, and with what can then be folded; `fused` replaces operators, too."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = module.to(memory_format=torch.channels_last)
        if hasattr(module, "training"):
            module = torch.jit.freeze(module)
        return torch.jit.optimize_for_inference(module) if fused else module


def declared(module: Any, precision: str = "float32") -> list[Tensor]:
    """Its inputs. TorchScript knows their names, not their shapes; the kind of numbers is that of its weights.

    Weights of a module that was frozen before it was saved cannot be seen: there it is what is asked for.
    """
    weights = [weight.dtype for weight in module.parameters() if weight.is_floating_point()]
    kind = str(weights[0]).removeprefix("torch.") if weights else precision
    arguments = module.forward.schema.arguments[1:]
    return [Tensor(one.name, None, kind) for one in arguments if not one.has_default_value()]


class TorchPredictor(ArrayPredictor):
    """See `Predictor`. `tensors` are those of the module before it was frozen."""

    def __init__(
        self, module: Any, tensors: list[Tensor], *, runtime: str, device: str, threads: int
    ) -> None:
        super().__init__(runtime, tensors)
        self.device = device
        self._module: Any = module
        self._threads = threads
        self._channels_last = runtime == "frozen"
        self._takes_any_layout = True
        self._staged: Any = None
        if device == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats()

    def run(self, batch: Array) -> tuple[Array, ...]:
        import torch

        # Each thread of this process has its own number, and predictors with other numbers may be loaded as well.
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        with torch.inference_mode():
            outputs = tuple(_tensors(self._called(self._given(batch))))
            if self.device == "cuda":
                wait(torch)
            return tuple(_own(tensor) for tensor in outputs)

    def _called(self, given: Any) -> Any:
        """Pictures come to a GPU with their channels last, which is faster. Modules that cannot take it get a copy."""
        if self._takes_any_layout:
            try:
                return self._module(given)
            except RuntimeError as error:
                if given.is_contiguous() or "view size is not compatible" not in str(error):
                    raise
            self._takes_any_layout = False
        return self._module(given.contiguous())

    def takes_pixels(self) -> bool:
        return self.device == "cuda"

    def _check(self, batch: Any) -> None:
        if not hasattr(batch, "array"):
            super()._check(batch)
        elif self._fitting is None:
            super()._check(batch.array())

    def _given(self, batch: Any) -> Any:
        import numpy as np
        import torch

        values = getattr(batch, "values", batch)
        given = torch.from_numpy(np.require(values, requirements=["C", "W"]))
        if self.device == "cuda":
            given = self._stage(given).to("cuda", non_blocking=True)
        if values is not batch:
            given = _computed(given, batch)
        if given.is_floating_point():
            given = given.to(getattr(torch, self._tensors[0].dtype))
        if self._channels_last and given.ndim == 4:
            given = given.contiguous(memory_format=torch.channels_last)
        return given

    def _stage(self, given: Any) -> Any:
        """A copy in memory that a GPU can read by itself: three times as fast as from anywhere else.

        It is used again for the next batch: by then all outputs of this one have come back.
        """
        import torch

        staged = self._staged
        if staged is None or staged.dtype != given.dtype or staged.numel() < given.numel():
            staged = self._staged = torch.empty(given.numel(), dtype=given.dtype, pin_memory=True)
        return staged[: given.numel()].view(given.shape).copy_(given)

    def advice(self, said: str, batch: Array) -> str:
        found = _CHANNELS.search(said)
        if found and found[1] in _MODES:
            return f"Set preprocess.image.mode: {_MODES[found[1]]}."
        if "tensors to be on the same device" in said:
            return (
                "The file names the device that it was made on: export it on a GPU, or set model.device: cpu."
            )
        if "mat1 and mat2 shapes" in said and batch.ndim == 4:
            return "Set preprocess.image.size to the size that the model was exported with."
        return super().advice(said, batch)

    def release(self) -> None:
        if self.device == "cuda":
            import torch

            give_back(torch)

    def check(self) -> None:
        if self.device == "cuda":
            import torch

            check_cuda(torch)

    def device_bytes(self) -> int:
        if self.device != "cuda":
            return 0
        import torch

        return held_bytes(torch)

    def close(self) -> None:
        self._module = self._staged = None
        self.release()


def _computed(given: Any, pixels: Any) -> Any:
    """On the GPU what `images` does on processors: channels first, scaled, normalised."""
    import torch

    def per_channel(values: Any) -> Any:
        return torch.tensor([float(value) for value in values], device=given.device).view(1, -1, 1, 1)

    scaled = given.permute(0, 3, 1, 2).to(torch.float32).div_(float(pixels.scale))
    return scaled.sub_(per_channel(pixels.mean)).div_(per_channel(pixels.deviation))


def _tensors(found: Any) -> Iterator[Any]:
    """The tensors of what a module gives, in order, however they are packed."""
    import torch

    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, Mapping):
        for part in found.values():
            yield from _tensors(part)
    elif isinstance(found, tuple | list):
        for part in found:
            yield from _tensors(part)
    elif found is not None:
        raise TypeError(f"it gives a {type(found).__name__}, not a tensor")


def _own(tensor: Any) -> Array:
    import numpy as np
    import torch

    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    return np.array(tensor.cpu().numpy())


def held_bytes(torch: Any) -> int:
    """The most that this process held on its GPU since `give_back`; 0 where it uses none."""
    if not uses_gpu(torch):
        return 0
    return int(torch.cuda.max_memory_reserved()) + CONTEXT_BYTES


def uses_gpu(torch: Any) -> bool:
    """Asks no driver: that alone would keep children of this process from using a GPU."""
    return bool(torch.cuda.is_initialized())


def wait(torch: Any) -> None:
    """Until the GPU has done what it was given, asleep: otherwise a thread that waits uses a core."""
    if uses_gpu(torch):
        event = torch.cuda.Event(blocking=True)
        event.record()
        event.synchronize()


def check_cuda(torch: Any) -> None:
    """Wait for what the GPU has been given. Raises, again and again, where it can no longer be used."""
    if uses_gpu(torch):
        torch.cuda.synchronize()


def give_back(torch: Any) -> None:
    """Let others have what torch keeps for later."""
    if uses_gpu(torch):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
