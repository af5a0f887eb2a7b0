"""A GPU that is none, for processes whose PYTHONPATH has this folder: torch computes on processors, and counts memory.

What it pretends is the memory: one pool for all processes that see the same GPU, with what each takes for its context,
for models and for batches, kept by a caching allocator, and errors like those of CUDA.
"""

from __future__ import annotations

import fcntl
import importlib.abc
import importlib.util
import json
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

POOL = os.environ["PRETENDED_GPU"]
TOTAL, CONTEXT, MODEL, EACH = (int(size) << 20 for size in os.environ["PRETENDED_GPU_MB"].split())
"""Bytes of the GPU; what a process takes of it, a copy of a model, and each input of a batch."""
EACH_S = float(os.environ["PRETENDED_GPU_EACH_S"])
"""How long an input takes it."""
SMALL = 1 << 20

WHITE = 0.99
"""A picture as bright as this makes a kernel fail an assertion."""
ASSERTION = """\
CUDA error: device-side assert triggered
Search for `cudaErrorAssert' in the manual of CUDA for more information.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
LATER = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
"""What another call says that comes before the assertion is heard of."""


class Allocator:
    """Of one process. `reserved` is what it has taken of the pool; it is given back when asked for, or at its end."""

    def __init__(self) -> None:
        self.reserved = self.peak = self.live = 0
        self._pool = f"{POOL}.{os.environ['CUDA_VISIBLE_DEVICES']}"
        self.lost = False
        """After some errors, whatever a process asks of CUDA fails."""

    def answer(self) -> None:
        if self.lost:
            import torch

            raise torch.AcceleratorError(ASSERTION)

    def hold(self, size: int, thing: Any) -> None:
        """As long as this thing exists."""
        self.use(size)
        self.live += size
        weakref.finalize(thing, self._let_go, size)

    def _let_go(self, size: int) -> None:
        self.live -= size

    def use(self, size: int) -> None:
        """For a moment, beside what is held."""
        self._reserve(CONTEXT + self.live + size)

    def empty(self) -> None:
        self.answer()
        self._reserve(CONTEXT + self.live, shrink=True)

    def _reserve(self, size: int, *, shrink: bool = False) -> None:
        if size <= self.reserved and not shrink:
            return
        with open(self._pool, "r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            held = {pid: taken for pid, taken in json.load(file).items() if os.path.exists(f"/proc/{pid}")}
            others = sum(taken for pid, taken in held.items() if pid != str(os.getpid()))
            if others + size > TOTAL:
                import torch

                if size - self.reserved <= SMALL:  # A library has none for itself, and does not say so.
                    raise RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR")
                raise torch.OutOfMemoryError(
                    f"CUDA out of memory. Tried to allocate {(size - self.reserved) >> 20} MiB."
                    f" GPU 0 has {(TOTAL - others - self.reserved) >> 20} MiB free."
                )
            held[str(os.getpid())] = size
            file.seek(0)
            file.truncate()
            json.dump(held, file)
        self.reserved, self.peak = size, max(self.peak, size)


def pretend(torch: Any) -> None:
    """Let torch say that it has a GPU."""
    allocator = Allocator()
    load, to, empty = torch.jit.load, torch.Tensor.to, torch.empty
    scripted = torch.jit._script.RecursiveScriptModule
    call = scripted.__call__

    def loaded(path: str, map_location: str = "cpu") -> Any:
        module = load(path, map_location="cpu")
        if map_location == "cuda":
            allocator.hold(MODEL, module)
        return module

    def called(self: Any, batch: Any) -> Any:
        allocator.answer()
        allocator.use(EACH * len(batch))
        if bool((batch.mean((1, 2, 3)) > WHITE).any()):
            allocator.lost = True
            raise RuntimeError("The following operation failed in the TorchScript interpreter.\n" + LATER)
        time.sleep(EACH_S * len(batch))  # Other workers go on, as if it was computed elsewhere.
        return call(self, batch)

    def moved(self: Any, *args: Any, **settings: Any) -> Any:
        if args[:1] != ("cuda",):
            return to(self, *args, **settings)
        assert not self.requires_grad
        return self.clone()

    def made(*args: Any, pin_memory: bool = False, **settings: Any) -> Any:
        return empty(*args, **settings)

    torch.jit.load, torch.Tensor.to, torch.empty = loaded, moved, made
    scripted.__call__ = called
    torch.cuda.is_available = lambda: True
    torch.cuda.is_initialized = lambda: allocator.reserved > 0
    torch.cuda.max_memory_reserved = lambda: max(0, allocator.peak - CONTEXT)
    torch.cuda.empty_cache = allocator.empty

    def reset() -> None:
        allocator.peak = allocator.reserved

    torch.cuda.reset_peak_memory_stats = reset
    torch.cuda.synchronize = allocator.answer

    class Event:
        def __init__(self, *, blocking: bool) -> None:
            assert blocking

        def record(self) -> None:
            """Nothing: all that was asked for is done."""

        def synchronize(self) -> None:
            allocator.answer()

    torch.cuda.Event = Event


def know(installed: Any) -> None:
    """Let Shoal find a build of torch that can use it."""
    installed.knows_cuda = lambda library: library == "torch"


class Loader(importlib.abc.Loader):
    """Loads a module, and then changes it."""

    def __init__(self, loader: Any, change: Callable[[Any], None]) -> None:
        self._loader, self._change = loader, change

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._loader.exec_module(module)
        self._change(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds what the others find."""

    def __init__(self, changes: dict[str, Callable[[Any], None]]) -> None:
        self._changes = changes
        self._asking = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if self._asking or name not in self._changes:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking = False
        if spec is not None:
            spec.loader = Loader(spec.loader, self._changes[name])
        return spec


sys.meta_path.insert(0, Finder({"torch": pretend, "shoal.work.models.libraries": know}))
