"""Explanations, captions and help of the pages, by name: the sections of `page_texts.md`."""

import re
from functools import cache
from pathlib import Path


def page_text(name: str, **figures: object) -> str:
    """A text as Markdown.  figures: by the names that it has in braces."""
    return page_texts()[name].format(**figures)


@cache
def page_texts() -> dict[str, str]:
    """All texts, each paragraph on one line."""
    whole = Path(__file__).with_name("page_texts.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^## (.+)\n", whole, flags=re.MULTILINE)
    named = zip(sections[::2], sections[1::2], strict=True)
    return {name: re.sub(r"(?<!\n)\n(?!\n)", " ", words.strip()) for name, words in named}
