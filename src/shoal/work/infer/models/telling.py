"""What libraries raise, told in words of Shoal: memory that did not suffice, and everything else in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shoal.engine.workers.runner import Failed
from shoal.work.infer.base import OutOfMemory, Unusable

_SAID = re.compile(
    r"can't allocate memory|DefaultCPUAllocator|failed to allocate memory|bad_alloc|out of memory"
    r"|_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY|BFCArena::AllocateRawInternal",
    re.IGNORECASE,
)
_LIBRARIES = ("torch", "onnxruntime", "openvino")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this says that memory, or a GPU's, did not suffice."""
    if isinstance(error, MemoryError):
        return True
    from_library = type(error).__module__.partition(".")[0] in _LIBRARIES
    # Errors of C++ come as plain RuntimeError.
    return (from_library or type(error) is RuntimeError) and _SAID.search(str(error)) is not None


@contextmanager
def memory_told(release: Callable[[], None] | None = None, sentence: str | None = None) -> Iterator[None]:
    """Around a call of a library: what it says about memory becomes `OutOfMemory`, after `release` was called.

    By then the error is forgotten, and with it the frames that held what was half computed.
    """
    said = ""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        said = one_line(error)
    if said:
        if release is not None:
            release()
        raise OutOfMemory(sentence or said)


@contextmanager
def others_told(told: Callable[[Exception], Exception]) -> Iterator[None]:
    """Around a call of a library: whatever it raises becomes what `told` makes of it. Our own errors go through."""
    try:
        yield
    except (OutOfMemory, Unusable, Failed):
        raise
    except Exception as error:  # noqa: BLE001 - libraries raise all sorts of things
        raise told(error) from None


def unusable(error: Exception, what: str) -> Exception:
    """`Unusable`, unless it is only that memory does not suffice just now."""
    said = one_line(error)
    return OutOfMemory(said) if is_out_of_memory(error) else Unusable(f"{what}: {said}")


def too_large(model: str) -> str:
    """The sentence for a model that does not fit even without a batch."""
    return (
        f"Memory did not suffice to load {model}: run fewer workers at once, such as tune: {{workers: 1}},"
        " or set resources: {memory: ...} to what one needs."
    )


def one_line(error: BaseException, *, first: bool = False, most: int = 300) -> str:
    """What an error says, for a sentence: of several lines the last that says something, or the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = re.sub(r"^(?:[\w.]*(?:Error|Exception): )+", "", lines[0 if first else -1])
    return text if len(text) <= most else text[: most - 3] + "..."
