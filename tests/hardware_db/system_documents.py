"""A small YAML document of a system, and the error for an invalid one."""

from __future__ import annotations

import pytest
import yaml

import hardware_db
from genz_core.errors import InvalidValue

BOARD = {
    "id": "my-card",
    "name": "My card",
    "vendor": "Me",
    "kind": "gpu",
    "family": "mine",
    "sources": {"sheet": {"title": "Datasheet of my card", "url": "https://example.org/card"}},
    "peak_dense_tflops": {"bf16": {"value": 100, "source": "sheet", "kind": "datasheet"}},
    "memory_gb": {"value": 24, "source": "sheet", "kind": "datasheet"},
    "memory_gb_per_s": {"value": 1000, "source": "sheet", "kind": "datasheet"},
}


def refused(data: object) -> str:
    """The one-sentence error for an invalid document, given as a mapping or text."""
    with pytest.raises(InvalidValue) as caught:
        hardware_db.load_yaml(data if isinstance(data, str) else yaml.safe_dump(data))
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message
