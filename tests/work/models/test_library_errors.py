"""What libraries say when a GPU has too little memory, or is lost: as torch and ONNX Runtime really say it."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.engine.workers.runner import Broken, Failed
from shoal.work.models.libraries import is_lost, is_out_of_memory, memory_told, one_line, others_told
from shoal.work.protocols import OutOfMemory

ADVICE = """
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
INTERPRETED = "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript:\n"


def of_library(name: str, said: str) -> Exception:
    """An error of a class that this library has."""
    found: Any = type("Error", (RuntimeError,), {"__module__": name})
    error: Exception = found(said)
    return error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: out of memory" + ADVICE),
        RuntimeError(INTERPRETED + "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        RuntimeError(INTERPRETED + "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
        RuntimeError("cuDNN Frontend error: [cudnn_frontend] Error: No valid execution plans built."),
        RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"),
        RuntimeError("GET was unable to find an engine to execute this computation"),
        RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable" + ADVICE),
        of_library("torch", "CUDA out of memory. Tried to allocate 20.00 MiB."),
        of_library("onnxruntime.capi.x", "CUDA failure 2: out of memory ; GPU=0 ; expr=cudaMalloc"),
        of_library("jaxlib._jax", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes."),
        of_library("tensorflow.python.x", "OOM when allocating tensor with shape[9]"),
    ],
    ids=lambda error: one_line(error)[:40],
)
def test_memory_of_a_gpu_that_does_not_suffice_is_known_by_what_is_said(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_lost(error)


LOST = [
    RuntimeError("CUDA error: device-side assert triggered" + ADVICE),
    RuntimeError(INTERPRETED + "RuntimeError: CUDA error: an illegal memory access was encountered" + ADVICE),
    of_library("torch", "CUDA error: unspecified launch failure" + ADVICE),
    of_library("onnxruntime.capi.x", "CUDA failure 700: an illegal memory access was encountered ; GPU=0"),
]


@pytest.mark.parametrize("error", LOST, ids=lambda error: one_line(error)[:40])
def test_a_gpu_that_is_lost_to_its_process_is_nobodys_fault(error: Exception) -> None:
    assert is_lost(error)
    assert not is_out_of_memory(error)
    for told in (memory_told(), others_told(lambda _: Failed("the input"))):
        with pytest.raises(Broken, match="no longer be used by this process: CUDA "), told:
            raise error


@pytest.mark.parametrize("found", [LOST[0], RuntimeError("CUDA error: unknown error" + ADVICE)], ids=one_line)
def test_a_lost_gpu_is_seen_where_another_error_comes_first(found: Exception) -> None:
    def check() -> None:
        raise found

    first = RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`")
    with (
        pytest.raises(Broken, match=r"device-side assert triggered$|unknown error$"),
        memory_told(check=check),
    ):
        raise first
    with pytest.raises(OutOfMemory), memory_told(check=lambda: None):
        raise first


@pytest.mark.parametrize("error", [ValueError("device-side assert triggered"), RuntimeError("wrong shape")])
def test_what_is_wrong_with_an_input_stays_that(error: Exception) -> None:
    with pytest.raises(type(error)), memory_told():
        raise error


def test_an_error_of_cuda_is_told_without_the_advice_below_it() -> None:
    assert one_line(LOST[1]) == "CUDA error: an illegal memory access was encountered"
    assert one_line(RuntimeError(INTERPRETED + "RuntimeError: shapes differ\n")) == "shapes differ"
