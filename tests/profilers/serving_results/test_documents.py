"""Documents of result files: large ones within a budget, YAML as benchmarks write it,
damaged ones.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from genz_core.errors import ReportError
from profilers.serving_results.compact_json import lean_json, lean_yaml
from profilers.serving_results.documents import Content

Write = Callable[[bytes], Content]


@pytest.fixture
def content(tmp_path: Path) -> Write:
    def write(data: bytes) -> Content:
        path = tmp_path / "result"
        path.write_bytes(data)
        return Content(path)

    return write


# ------------------------------------------------------------------------------- large documents


def in_pieces(text: str, size: int = 7) -> list[bytes]:
    data = text.encode()
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1.5, 2.0, -3e9], "b": {"c": "text", "d": None, "e": True}},
        [[1.0, 2.0], [3.0, "four", 5.0], [], [{"x": [1.0]}, 2.0]],
        {"mixed": [1.0, 2.0, {"a": 3.0}], "alone": [[1.0, None]]},
        [1.0, 2.0, "three"],
        [[[1.0, "deep"]]],
        "one text",
        4.5,
    ],
)
def test_a_document_in_pieces_is_what_json_makes_of_it(value: Any) -> None:
    assert plain(lean_json(in_pieces(json.dumps(value)))) == value


def plain(value: Any) -> Any:
    """The same with lists instead of packed arrays."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | array) else value


def test_numbers_alone_are_packed_and_long_texts_cut() -> None:
    found = lean_json(in_pieces(json.dumps({"times": [1, 2, 3], "answer": "x" * 5000})))
    assert found["times"] == array("d", [1, 2, 3])
    assert len(found["answer"]) == 2000


def test_pythons_own_words_for_no_number_are_read() -> None:
    """`json.dumps` writes NaN and Infinity, which are not valid JSON."""
    text = json.dumps({"a": [1.0, math.nan], "b": math.inf, "c": -math.inf, "d": "NaN, Infinity"})
    assert plain(lean_json([text.encode()])) == {
        "a": [1.0, None], "b": "inf", "c": "-inf", "d": "NaN, Infinity",
    }  # fmt: skip


def test_they_are_read_in_a_compact_document_wherever_its_pieces_end() -> None:
    times = [math.nan, 0.0123456789, math.nan, math.inf, 0.5, -math.inf, 1.0] * 4
    text = json.dumps({"itls": times, "e": math.nan}, separators=(",", ":")).encode()
    whole = plain(lean_json([text]))
    for at in range(1, len(text)):
        assert plain(lean_json([text[:at], text[at:]])) == whole


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 300 + "]" * 300, "nested too deeply"),
        ("[1" + "0" * 400 + "]", "an integer of hundreds of digits|damaged"),
        ('{"a": [1, 2', "damaged or cut off"),
        ("", "damaged or cut off"),
        ("[" + "null," * 1_000_001 + "1]", "more than 1,000,000 values"),
    ],
)
def test_hostile_json_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ReportError, match=said):
        lean_json(in_pieces(text, 1 << 16))


# ------------------------------------------------------------------------------- YAML


def test_yaml_is_read_as_benchmarks_write_it() -> None:
    found = lean_yaml(
        "rate: 1.5e3\ncount: -12\nopen: .inf\nnone: ~\nyes: true\nquoted: '12'\ntagged: !!str 7\n"
        "list: [1, two, .5]\nnested:\n  inner: {a: 1}\n2: a key of digits\n---\nsecond: ignored\n"
    )
    assert found == {
        "rate": 1500.0, "count": -12, "open": math.inf, "none": None, "yes": True,
        "quoted": "12", "tagged": "7", "list": [1, "two", 0.5], "nested": {"inner": {"a": 1}},
        "2": "a key of digits",
    }  # fmt: skip
    assert math.isnan(lean_yaml("x: .nan")["x"])


def test_anchors_stand_for_what_they_name_also_as_keys() -> None:
    found = lean_yaml("a: &one {b: 1}\nc: *one\nd: &two word\n*two : e\nf: *two\n")
    assert found == {"a": {"b": 1}, "c": {"b": 1}, "d": "word", "word": "e", "f": "word"}
    assert lean_yaml("a: *nobody") == {"a": None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("? [1, 2]\n: x\n", "a key that is not a text"),
        ("a: [1, 2", "damaged or cut off"),
        ("a: " + "[" * 300 + "]" * 300, "nested too deeply"),
    ],
)
def test_yaml_that_is_no_result_is_refused(text: str, said: str) -> None:
    with pytest.raises(ReportError, match=said):
        lean_yaml(text)


# ------------------------------------------------------------------------------- files


def test_a_file_of_several_lines_is_a_document_a_line(content: Write) -> None:
    found = content(b'\n\xef\xbb\xbf {"a": 1}\n\n{"a": 2}\n  \n{"a": 3}')
    assert [document["a"] for document in found.documents()] == [1, 2, 3]
    assert found.first == {"a": 1}


def test_a_document_over_many_lines_is_one(content: Write) -> None:
    value = {"a": [1, 2], "b": {"c": "d"}}
    assert list(content(json.dumps(value, indent=1).encode()).documents()) == [value]


@pytest.mark.slow
def test_large_documents_are_read_whole_line_or_lines(content: Write) -> None:
    """Beyond four megabytes: on one line, over several lines, and as the second of two lines."""
    large = {"times": [at + 1 / 3 for at in range(240_000)], "model": "a/b"}
    text = json.dumps(large)
    assert len(text) > 4 << 20
    for data in (text, json.dumps(large, indent=0), '{"times": []}\n' + text):
        *_, last = content(data.encode()).documents()
        assert (len(last["times"]), last["times"][-1], last["model"]) == (
            240_000,
            239_999 + 1 / 3,
            "a/b",
        )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b" \n\n", "the file is empty"),
        (b'{"a": 1}\n{"a": \n', "line 2 is no JSON"),
        (b'{"a": 1,\n"b"', "damaged or cut off; write or copy"),
        (b'{"a":' + b"[" * 200_000, "nested too deeply|damaged"),
    ],
)
def test_damaged_files_are_refused_in_a_sentence(content: Write, data: bytes, said: str) -> None:
    with pytest.raises(ReportError, match=said):
        list(content(data).documents())


def test_binary_content_is_refused_and_utf_16_is_none(content: Write) -> None:
    with pytest.raises(ReportError, match="binary data"):
        _ = content(b"\x00\x01\x02").head
    assert content('{"a": 1}'.encode("utf-16")).is_json
    assert content(b"plain text").first is None


def test_a_text_beyond_32_megabytes_is_refused(content: Write) -> None:
    with pytest.raises(ReportError, match="larger than 34 MB"):
        _ = content(b"x" * ((32 << 20) + 1)).text
    assert content(b"a: 1").yaml == {"a": 1}
