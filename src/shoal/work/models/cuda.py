"""What torch knows of the GPU that a worker uses."""

from __future__ import annotations

from typing import Any

CONTEXT_BYTES = 512 << 20
"""What a process takes of a GPU besides its arrays, about: torch does not count it."""


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


def check(torch: Any) -> None:
    """Wait for what the GPU has been given. Raises, again and again, where it can no longer be used."""
    if uses_gpu(torch):
        torch.cuda.synchronize()


def give_back(torch: Any) -> None:
    """Let others have what torch keeps for later."""
    if uses_gpu(torch):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
