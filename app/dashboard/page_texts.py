"""Explanations, captions and help of the pages, by name: the sections of `page_texts.md`."""

import re
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from app.answers.column import WRITERS, in_words


def page_text(name: str, **figures: object) -> str:
    """A text as Markdown.  figures: by the names that it has in braces."""
    return _WithUnits().vformat(page_texts()[name], (), figures)


class _WithUnits(Formatter):
    """Writes numbers in units of `app.answers.column`, too: {wait_s:s} as "30.0 ms"."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """A number in its unit, anything else as usual."""
        if format_spec in WRITERS and not isinstance(value, str):
            return in_words(float(value), format_spec)
        return format(value, format_spec)


@cache
def page_texts() -> dict[str, str]:
    """All texts, each paragraph on one line."""
    whole = Path(__file__).with_name("page_texts.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^## (.+)\n", whole, flags=re.MULTILINE)
    named = zip(sections[::2], sections[1::2], strict=True)
    return {name: re.sub(r"(?<!\n)\n(?!\n)", " ", words.strip()) for name, words in named}
