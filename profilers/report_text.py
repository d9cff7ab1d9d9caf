"""Text of reports: names of kernels, and Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence

from genz_core.common.cells import markdown_cell


def shortened(name: str, length: int = 80) -> str:
    """A kernel's name on a single line of at most `length` characters."""
    line = " ".join(name.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def markdown_table(header: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A Markdown table of a header and rows of cells, which may hold any text."""
    lines = [header, ["---"] * len(header), *cells]
    return "\n".join("| " + " | ".join(map(markdown_cell, line)) + " |" for line in lines)
