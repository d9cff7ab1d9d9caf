"""Text from outside on a page that draws Markdown: names, errors and notes stay what they say.

Names of models and devices, errors that quote what was typed, and reports of imported runs come
from whoever wrote the link or the file.  As Markdown they could load a picture from anywhere,
which tells its server who reads the page, or draw a link in our name.
"""

from __future__ import annotations

import re

#: Letters of one text that a page shows.
LONGEST = 2000
#: Stands between two letters that would be markup together; it has no width.
_BREAK = "\u200b"
#: What no font draws and what turns the direction of writing: controls but tab and line feed.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
#: Where a link or a picture would come about: `[a](b)`, `[a][b]`, `[a]: b`, `http://`, `www.`,
#: `a@b.c`; and an icon: `:name:`.
_REACHING = re.compile(
    r"(?<=\])(?=[(\[:])|(?<=:)(?=//|[\w/+-]+:)|(?<=www)(?=\.)|(?<=@)(?=\w)", re.IGNORECASE
)
_TAG = re.compile(r"(?<=<)(?=\S)")
_MARKUP = re.compile(r"([\\`*\[\]<>$~|]|:(?=[a-zA-Z])|(?<!\w)_|_(?!\w)|&(?=#?\w))")
#: What makes a heading, a rule or a list of a line that begins with it.
_LINE_MARK = re.compile(r"^(\d*)(#+(?=\s|$)|[-+=](?=[\s=-]|$)|(?<=\d)[.)](?=\s|$))")


def plain(text: object) -> str:
    """A text from outside as Markdown that shows it as it is: one line, no markup, no link."""
    line = " ".join(_INVISIBLE.sub("\ufffd", str(text)).split())
    if len(line) > LONGEST:
        line = f"{line[:LONGEST]} …"
    return _LINE_MARK.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", _REACHING.sub(_BREAK, line)))


def without_links(document: str) -> str:
    """A Markdown document from outside, its headings and tables kept, without pictures and links.

    Nothing that is read is taken away; code blocks look the same.
    """
    text = _TAG.sub(_BREAK, _REACHING.sub(_BREAK, _INVISIBLE.sub("\ufffd", document)))
    return text.replace("$", r"\$")


def chart_text(text: str) -> str:
    """A text from outside for a chart, whose labels understand tags such as <a> and <br>."""
    line = " ".join(_INVISIBLE.sub("\ufffd", text).split())
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
