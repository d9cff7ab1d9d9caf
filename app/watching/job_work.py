"""A recording that a visitor uploads, watched as a job of a page."""

import io
from collections.abc import Mapping
from typing import Any

from app.question.extras import extras_of, read_extras
from app.question.query import ask
from app.watching.answer import of_looks
from app.watching.pages import looks_of
from genz_core.common.progress import Cancel, Progress


def watched(
    asked: tuple[Mapping[str, Any], str, bytes], progress: Progress, cancelled: Cancel
) -> dict[str, Any]:
    """The document of a watch.

    asked: values by name, the name of the file, and its bytes.

    Raises:
        RidgelineError: an unknown name, or not a recording.
    """
    given, name, content = asked
    extras, values = read_extras(extras_of("watch"), given)
    lines = io.StringIO(content.decode("utf-8", "replace"))
    progress(0.1, "reading the looks")
    looks, window = looks_of(name, lines), float(extras["window"])
    return of_looks(ask("watch", values), looks, window, cancelled).document()
