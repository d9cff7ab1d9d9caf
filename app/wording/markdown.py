"""External text on pages that render Markdown: names, errors and notes are shown literally.

Names of models and devices, errors that quote typed text, and reports of imported runs come from
whoever wrote the link or the file.  As Markdown they could load a picture from anywhere, which
tells its server who reads the page, or show a link in our name.
"""

import re

#: Most characters of one text shown on a page.
LONGEST = 2000
#: Inserted between two characters that would form markup; it has no width.
_BREAK = "\u200b"
#: Characters that no font draws or that change the writing direction: controls except tab and line
#: feed.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
#: Patterns that would become a link or a picture: `[a](b)`, `[a][b]`, `[a]: b`, `http://`, `www.`,
#: `a@b.c`; or an icon: `:name:`.
_REACHING = re.compile(
    r"(?<=\])(?=[(\[:])|(?<=:)(?=//|[\w/+-]+:)|(?<=www)(?=\.)|(?<=@)(?=\w)", re.IGNORECASE
)
_TAG = re.compile(r"(?<=<)(?=\S)")
_MARKUP = re.compile(r"([\\`*\[\]<>$~|]|:(?=[a-zA-Z])|(?<!\w)_|_(?!\w)|&(?=#?\w))")
#: Words in backticks, as `plain` writes them.
_CODE = re.compile(r"\\`([^`]+)\\`")
#: Line starts that would make a heading, a rule or a list.
_LINE_MARK = re.compile(r"^(\d*)(#+(?=\s|$)|[-+=](?=[\s=-]|$)|(?<=\d)[.)](?=\s|$))")


def plain(text: object) -> str:
    """External text as Markdown that shows it literally: one line, no markup, no link."""
    line = " ".join(_INVISIBLE.sub("\ufffd", str(text)).split())
    if len(line) > LONGEST:
        line = f"{line[:LONGEST]} …"
    return _LINE_MARK.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", _REACHING.sub(_BREAK, line)))


def with_code(text: object) -> str:
    """`plain`, but words in backticks, such as a command in an error, are shown as code."""
    return _CODE.sub(lambda found: "`" + re.sub(r"\\(.)", r"\1", found[1]) + "`", plain(text))


def without_links(document: str) -> str:
    """External Markdown with its headings and tables, but without pictures and links.

    No visible text is removed; code blocks look the same.
    """
    text = _TAG.sub(_BREAK, _REACHING.sub(_BREAK, _INVISIBLE.sub("\ufffd", document)))
    return text.replace("$", r"\$")


def unbroken(sentence: str) -> str:
    """A sentence that is not broken before a percent sign, nor on either side of "8 × h100"."""
    return re.sub(r"(?<=\d) (?=[%×])|(?<=\d ×) ", "\u00a0", sentence)


def capital(words: str) -> str:
    """A text with a capital first letter."""
    return words[:1].upper() + words[1:]


def chart_text(text: str) -> str:
    """External text for a chart, whose labels interpret tags such as <a> and <br>."""
    line = " ".join(_INVISIBLE.sub("\ufffd", text).split())
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
