"""Writing files atomically: they appear complete or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genz_core.errors import InvalidValue, RidgelineError


@contextmanager
def write_whole(path: Path, error: type[RidgelineError] = InvalidValue) -> Iterator[Path]:
    """Path of a draft beside `path`, which replaces `path` when the context ends without error.

    Drafts have unique names; the old file is kept if the context fails.  The folder is created if
    it is missing.

    Raises:
        error: the file system refuses.
    """
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield draft
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as failure:
        raise error(f"cannot write {path}: {failure.strerror or failure}") from None
