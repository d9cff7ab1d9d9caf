"""Text from outside is displayed literally, without pictures, links or markup."""

import re

import pytest

from app.wording.markdown import LONGEST, chart_text, plain, unbroken, with_code, without_links

HOSTILE = [
    "![x](http://host/b.png)", "[click](https://host)", "[a][b]\n[b]: http://host", "<http://host>",
    "http://host/x", "HTTPS://HOST", "www.host.org", "someone@host.org", "<img src=//host/b.png>",
    "<a href='http://host'>x</a>", "![x]\n(http://host)", "[![a](http://h/b.png)](http://h)",
    "[x]: //host/b.png\n![x]", "![x][x]",
]  # fmt: skip
#: Texts that CommonMark with GitHub's extensions would turn into a request or a link.
REACHES = re.compile(
    r"(?<!\\)\]\(|(?<!\\)\]\[|(?<!\\)\]:|https?://|www\.|\w@\w|(?<!\\)<\w", re.IGNORECASE
)


def read(shown: str) -> str:
    """The visible text of Markdown that contains only text."""
    return re.sub(r"\\([!-/:-@[-`{-~])", r"\1", shown).replace("\u200b", "")


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_from_outside_reaches_out(text: str) -> None:
    assert not REACHES.search(plain(text))
    assert not REACHES.search(with_code(text)) and not REACHES.search(with_code(f"``{text}"))
    assert not REACHES.search(without_links(text))


@pytest.mark.parametrize(
    "text",
    [
        "meta-llama/Llama-3.1-8B on h100", "**bold** _it_ `code` ~~no~~", "# no title", "- no list",
        "1. no list", "a | b", "costs $5 to $6", ":red[x] :material/star: 12:30", "&lt; &#60; A&B",
        "snake_case q4_k_m", "=== no heading", "a\\b", "<b>x</b>", "hf:owner/name",
    ],
)  # fmt: skip
def test_what_is_read_is_what_was_written(text: str) -> None:
    assert read(plain(text)) == text


def test_a_text_is_one_line_without_invisible_letters_and_of_bounded_length() -> None:
    assert plain("a\n\n# b\t c") == "a # b c"
    assert plain("a\u202eb\x00") == "a\ufffdb\ufffd"
    assert len(plain("x" * 10**6)) == LONGEST + 2


def test_a_command_in_a_sentence_is_code_and_everything_else_literal() -> None:
    assert with_code("run `calibrate --name a_b`: *now*") == r"run `calibrate --name a_b`: \*now\*"
    for text in ("one ` alone", "two `` in a row", "a\\` b"):
        assert read(with_code(text)) == text


def test_ordinary_names_stay_as_they_are() -> None:
    for name in ("NVIDIA H100 SXM5 80GB", "Qwen/Qwen3-8B", "q4_k_m", "4.52 ms (80 %: 4.2 to 5.1)"):
        assert plain(name) == name


def test_a_report_keeps_its_headings_tables_and_code() -> None:
    report = "# Run\n\n| phase | time |\n| --- | --- |\n| decode | 4 ms |\n\n```\nx = a[1]\n```\n"
    assert without_links(report) == report


def test_a_chart_takes_no_tags_from_names() -> None:
    assert chart_text("<a href='//host'>x</a>\n&") == "&lt;a href='//host'&gt;x&lt;/a&gt; &amp;"


def test_a_percent_sign_stays_with_its_number() -> None:
    assert unbroken("cut by **34 %**, or 5 % (a % sign)") == (
        "cut by **34\u00a0%**, or 5\u00a0% (a % sign)"
    )
