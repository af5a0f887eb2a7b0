"""What a worker has around it in a process of its own, given to it for a while in a process that is not."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from types import FrameType
from typing import NamedTuple, TextIO


class _Kept(NamedTuple):
    """Environment, current folder and import path of this process."""

    environment: Mapping[str, str]
    folder: str
    path: list[str]

    @classmethod
    def now(cls) -> _Kept:
        return cls(dict(os.environ), os.getcwd(), list(sys.path))

    def restore(self) -> None:
        for name in os.environ.keys() - self.environment.keys():
            del os.environ[name]
        os.environ.update(self.environment)
        os.chdir(self.folder)
        sys.path[:] = self.path


class Surroundings:
    """Those of one worker. What it changes in them it finds again the next time; the process gets its own back.

    What it prints is shown as before, and written to its log, too. Modules that it imports from `folder` are forgotten
    by `close`: another run may have others of the same name, or the same ones after an edit.
    """

    def __init__(self, folder: str, log_fd: int) -> None:
        self._folder = os.path.join(folder, "")
        self._log_fd = log_fd
        self._modules = set(sys.modules)
        self._inside = _Kept.now()
        self.printed = False
        """Whether it has printed anything since somebody last set this to False."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        outside = _Kept.now()
        with ExitStack() as stack:
            stack.callback(outside.restore)
            stack.enter_context(redirect_stdout(_Tee(sys.stdout, self._log)))
            stack.enter_context(redirect_stderr(_Tee(sys.stderr, self._log)))
            self._inside.restore()
            try:
                yield
            finally:
                self._inside = _Kept.now()

    def _log(self, text: str) -> None:
        self.printed = True
        os.write(self._log_fd, text.encode("utf-8", "backslashreplace"))

    def show(self, start: int, end: int) -> None:
        """Print a part of the log: what a command wrote there, whose output does not come through this process."""
        while start < end and (block := os.pread(self._log_fd, min(end - start, 1 << 20), start)):
            sys.stdout.write(block.decode("utf-8", "replace"))
            start += len(block)
        sys.stdout.flush()

    def close(self) -> None:
        for name in set(sys.modules) - self._modules:
            file = getattr(sys.modules[name], "__file__", None)
            if len(self._folder) > 1 and file is not None and file.startswith(self._folder):
                del sys.modules[name]


class _Tee(io.TextIOBase):
    """A stream whose text is also given to `log`. For everything else it is that stream: a debugger may ask at it."""

    def __init__(self, stream: TextIO, log: Callable[[str], None]) -> None:
        self._stream = stream
        self._log = log

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    @property
    def buffer(self) -> io.BufferedIOBase:
        return self._stream.buffer  # type: ignore[return-value]

    def write(self, text: str, /) -> int:
        self._log(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True


@contextmanager
def hearing_interrupts(heard: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls `heard`, after whatever it did before. Only the main thread can hear it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if callable(before):
            before(number, frame)
        heard()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
