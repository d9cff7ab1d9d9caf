"""File locks between processes: one process holds a file, which is released when the process
ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_ASK_S = 0.05


def try_lock(path: Path) -> IO[bytes] | None:
    """The opened file, locked; None where another process holds the lock.  Close it to release the
    lock.

    Raises:
        OSError: the file cannot be created.
    """
    opened = path.open("ab")
    try:
        if sys.platform == "win32":
            msvcrt.locking(opened.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        opened.close()
        return None
    return opened


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock inside the block, after waiting for its current holder.

    Raises:
        OSError: the file cannot be created.
    """
    while (held := try_lock(path)) is None:
        time.sleep(_ASK_S)
    with held:
        yield
