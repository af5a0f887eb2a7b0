"""The libraries that run models: which are installed and know GPUs, without importing them; and what they raise, in
words of Shoal."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from shoal.engine.workers.runner import Broken, Failed
from shoal.work.protocols import OutOfMemory, Unusable

_CUDA_LIBRARIES = {
    "torch": (("lib", "libtorch_cuda.so"), ("lib", "libtorch_hip.so")),
    "onnxruntime": (("capi", "libonnxruntime_providers_cuda.so"),),
}
WITH_CUDA = {"torch": "a build of torch with CUDA", "onnxruntime": "onnxruntime-gpu instead of onnxruntime"}
"""What to install where a GPU is to be used."""
TAKES = {"onnxruntime": ("onnxruntime", "onnx"), "openvino": ("openvino",)}
"""What it takes to have a model converted and run so: torch needs the package onnx to convert to it."""
_EXTRAS = {"onnxruntime": "onnx", "openvino": "openvino"}

_SAID = re.compile(
    r"can't allocate memory|DefaultCPUAllocator|failed to allocate memory|bad_alloc|out of memory"
    r"|RESOURCE_EXHAUSTED|OOM when allocating"
    r"|_ALLOC_FAILED|_ALLOCATION_FAILED|CUDA_ERROR_OUT_OF_MEMORY|BFCArena::AllocateRawInternal"
    # What is left of it where a library needed memory of its own, and tells what it could not do without.
    r"|(?:CUBLAS|CUDNN|CUSOLVER)_STATUS_(?:NOT_INITIALIZED|INTERNAL_ERROR|EXECUTION_FAILED)|CUFFT_INTERNAL_ERROR"
    r"|unable to find an engine to execute this computation|No valid (?:execution plans|engine configs)"
    # Some GPUs are set up for one process at a time: there fewer workers do, too.
    r"|CUDA-capable device\(s\) is/are busy or unavailable",
    re.IGNORECASE,
)
_LOST = re.compile(
    r"device-side assert triggered|illegal memory access|misaligned address|illegal instruction was encountered"
    r"|invalid program counter|operation not supported on global/shared address space|hardware stack error"
    r"|unspecified launch failure|launch timed out and was terminated|uncorrectable ECC error"
    r"|uncorrectable NVLink error|GPU is lost|context is destroyed",
    re.IGNORECASE,
)
"""Errors of CUDA after which all else fails in the process, too, as the manual of its runtime says."""
_CUDA = re.compile(r"^(?:\w+: )?(?:CUDA error|CUDA failure|cuDNN error|cuBLAS error)", re.IGNORECASE)
_LIBRARIES = ("torch", "onnxruntime", "openvino", "jaxlib", "tensorflow", "cupy", "cupy_backends")
"""What models are run with: those of a class of the user's, too."""


def is_installed(library: str) -> bool:
    """Whether it could be imported. A package that is broken may be found all the same."""
    return find_spec(library) is not None


def missing_for(runtimes: Iterable[str]) -> dict[str, str]:
    """Of these ways to run a model, those for which a package is missing, each with a sentence of what to install."""
    told = {}
    for runtime in runtimes:
        absent = [library for library in TAKES[runtime] if not is_installed(library)]
        if absent:
            lacks = "is not installed" if runtime in absent else f"needs {' and '.join(absent)}, too"
            told[runtime] = f"{runtime} {lacks}: pip install 'shoal[{_EXTRAS[runtime]}]'"
    return told


def need_for(runtime: str) -> None:
    """Raises `Unusable`, with what to install, where a package is missing for this way to run a model."""
    lacking = missing_for([runtime]).get(runtime)
    if lacking is not None:
        raise Unusable(lacking)


def knows_cuda(library: str) -> bool:
    """Whether this build of `torch` or `onnxruntime` can use a GPU, if there is one."""
    found = find_spec(library)
    folders = (found.submodule_search_locations or ()) if found else ()
    return any(
        os.path.exists(os.path.join(folder, *parts))
        for folder in folders
        for parts in _CUDA_LIBRARIES[library]
    )


def device_of(asked: str, library: str, *, gpu: bool) -> str:
    """`cpu` or `cuda`: where `library` computes, when the file asks for `auto`, `cpu` or `cuda`."""
    if asked == "cpu":
        return "cpu"
    if gpu and knows_cuda(library):
        return "cuda"
    if asked == "auto":
        return "cpu"
    if not gpu:
        raise Failed(
            "model.device is cuda, and this worker has no GPU: set resources: {gpu: 1} on a node that has one,"
            " or model.device: auto."
        )
    raise Failed(
        f"model.device is cuda, and the {library} that is installed cannot use a GPU:"
        f" install {WITH_CUDA[library]}, or set model.device: auto."
    )


def need(library: str, extra: str, what: str) -> None:
    """Says what to install when `library`, without which `what` cannot be run as given, is missing."""
    if not is_installed(library):
        raise Failed(
            f"{what} needs {library}, which is not installed: pip install 'shoal[{extra}]', or add {library}"
            " to requirements."
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this says that memory, or a GPU's, did not suffice."""
    if isinstance(error, MemoryError):
        return True
    from_library = type(error).__module__.partition(".")[0] in _LIBRARIES
    # Errors of C++ come as plain RuntimeError.
    return (from_library or type(error) is RuntimeError) and _SAID.search(str(error)) is not None


def is_lost(error: BaseException) -> bool:
    """Whether this says that the process cannot use its GPU any more, whatever it is given."""
    from_library = type(error).__module__.partition(".")[0] in _LIBRARIES
    return (from_library or type(error) is RuntimeError) and _LOST.search(str(error)) is not None


def lost(error: BaseException) -> Broken:
    return Broken(f"The GPU can no longer be used by this process: {one_line(error)}")


@contextmanager
def memory_told(
    release: Callable[[], None] | None = None,
    sentence: str | None = None,
    check: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Around a call of a library: what it says about memory becomes `OutOfMemory`, after `release` was called.

    By then the error is forgotten, and with it the frames that held what was half computed. Where the GPU is lost,
    `Broken` is raised; `check` raises what says so where the error itself does not.
    """
    said = ""
    try:
        yield
    except Exception as error:
        _ensure_not_lost(error, check)
        if not is_out_of_memory(error):
            raise
        said = one_line(error)
    if said:
        if release is not None:
            release()
        raise OutOfMemory(sentence or said)


def _ensure_not_lost(error: Exception, check: Callable[[], None] | None) -> None:
    """Kernels run later than they are called: other calls may fail first, and say something else."""
    if is_lost(error):
        raise lost(error) from None
    if check is not None:
        try:
            check()
        except Exception as found:  # noqa: BLE001 - libraries raise all sorts of things
            if not is_out_of_memory(found):  # Whatever it is: waiting alone fails.
                raise lost(found) from None


@contextmanager
def others_told(told: Callable[[Exception], Exception]) -> Iterator[None]:
    """Around a call of a library: whatever it raises becomes what `told` makes of it. Our own errors go through."""
    try:
        yield
    except (OutOfMemory, Unusable, Failed, Broken):
        raise
    except Exception as error:  # noqa: BLE001 - libraries raise all sorts of things
        raise (lost(error) if is_lost(error) else told(error)) from None


def unusable(error: Exception, what: str) -> Exception:
    """`Unusable`, unless it is only that memory does not suffice just now."""
    said = one_line(error)
    return OutOfMemory(said) if is_out_of_memory(error) else Unusable(f"{what}: {said}")


def too_large(model: str, error: Exception | None = None) -> str:
    """The sentence for a model that does not fit even without a batch."""
    if error is not None and re.search("CUDA|CUDNN|CUBLAS", str(error)):
        return (
            f"The GPU has no room to load {model} ({one_line(error, most=100)}): see with nvidia-smi who else uses it,"
            " run fewer workers at once, such as tune: {workers: 1}, or set model.device: cpu."
        )
    return (
        f"Memory did not suffice to load {model}: run fewer workers at once, such as tune: {{workers: 1}},"
        " or set resources: {memory: ...} to what one needs."
    )


def one_line(error: BaseException, *, first: bool = False, most: int = 300) -> str:
    """What an error says, for a sentence: of several lines the last that says something, or the first.

    Errors of CUDA are followed by advice for those who write kernels.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    of_cuda = [line for line in lines if _CUDA.search(line)]
    text = (of_cuda or lines)[0 if first or of_cuda else -1]
    text = re.sub(r"^(?:[\w.]*(?:Error|Exception): )+", "", text)
    return text if len(text) <= most else text[: most - 3] + "..."
