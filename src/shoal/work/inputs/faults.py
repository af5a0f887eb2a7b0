"""What goes wrong with files while inputs are read: the fault of an input, or not."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.errors import AccessDenied, FileError, NotFound, SpecError
from shoal.work.protocols import Unreadable

VANISHED = "vanished since it was listed"
CHANGED = "the file was changed since it was listed"
_OF_THE_FILE = frozenset((errno.EIO, errno.ELOOP, errno.ENAMETOOLONG))


@contextmanager
def blamed() -> Iterator[None]:
    """Errors of a file become `Unreadable`. What is wrong with a storage, or with who we are to it, stays an error."""
    try:
        yield
    except NotFound as error:
        raise Unreadable(VANISHED) from error
    except AccessDenied as error:
        if error.is_general:
            raise
        raise Unreadable(one_line(error)) from error
    except SpecError as error:  # A key that no storage takes.
        raise Unreadable(one_line(error)) from error
    except FileError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _OF_THE_FILE:
            raise Unreadable(one_line(error)) from error
        raise


def one_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
