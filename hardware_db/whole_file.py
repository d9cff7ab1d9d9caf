"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genz_core.errors import InvalidValue, RidgelineError


@contextmanager
def write_whole(path: Path, error: type[RidgelineError] = InvalidValue) -> Iterator[Path]:
    """A draft beside `path` to write to, which takes its place at the end, and only then.

    Two processes that write the same file do not meet; what it held stays if anything fails.
    The folder is made if it is missing.

    Raises:
        error: the disk says no.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield draft
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as failure:
        raise error(f"cannot write {path}: {failure.strerror or failure}") from None
