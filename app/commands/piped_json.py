"""Standard input as the JSON document of the previous command: `-` instead of a model."""

import sys
from typing import Any

from genz_core.errors import InvalidValue

PIPE = "-"
_MOST = 64 * 2**20  # characters


def piped(*steps: str) -> dict[str, Any]:
    """Read a document of one of `steps` from standard input.

    See `model_registry.reports.step_documents`.

    Raises:
        InvalidValue: it is too long, or not such a document.
    """
    from model_registry.reports import step_documents

    text = sys.stdin.read(_MOST + 1)
    if len(text) > _MOST:
        raise InvalidValue(f"standard input is longer than {_MOST:,} characters")
    return step_documents.document(text, *steps)
