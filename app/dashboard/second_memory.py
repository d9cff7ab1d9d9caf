"""The table of a device's memories on page Explain, chart Memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from app.wording import quantities

WORDS = (
    "The bytes that a decode step reads least often are in the second memory: experts that few "
    "tokens reach, embeddings, the end of the cache. Operators read each share at the bandwidth "
    "of its memory; one whose arithmetic takes longer hides it."
)


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows of `app.scenario.memory_rows` in words."""
    sizes = {"capacity": "bytes", "weights": "weights_bytes", "cache": "cache_bytes"}
    return pd.DataFrame(
        {
            "memory": row["memory"],
            **{words: quantities.size(row[name]) for words, name in sizes.items()},
            "bandwidth": quantities.bandwidth(row["bytes_per_s"]),
            "a decode step reads": quantities.size(row["read_bytes"]),
            "in at least": quantities.seconds(row["read_s"]),
        }
        for row in rows
    )
