"""Traces of real traffic: public layouts, compressed, by session; other files give one sentence."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from app.simulation import trace_file
from genz_core.common.progress import Cancelled
from genz_core.errors import InvalidValue

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-12 00:00:00.007930+00:00,2162,5
2024-05-12 00:00:00.017335+00:00,2399,6
"""
MOONCAKE = """{"timestamp": 0, "input_length": 1100, "output_length": 50, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 1200, "output_length": 40, "hash_ids": [0, 1, 3]}
{"timestamp": 3000, "input_length": 20, "output_length": 1, "hash_ids": [4]}
"""
OURS = "arrival_s,input_tokens,output_tokens\n0.5,100,10\n1.25,200,20\n"
GOOD = {
    "azure": (AZURE, [0.0, 4.314579, 4.541877], [374, 396, 879], [44, 109, 55]),
    "azure 2024": (AZURE_2024, [0.0, 0.009405], [2162, 2399], [5, 6]),
    "mooncake": (MOONCAKE, [0.0, 3.0, 3.0], [1100, 1200, 20], [50, 40, 1]),
    "ours": (OURS, [0.0, 0.75], [100, 200], [10, 20]),
    "ours as JSON lines": (
        '{"arrival_s": 0, "input_tokens": 5, "output_tokens": 2}\n\n'
        '{"arrival_s": 1, "input_tokens": 6, "output_tokens": 3}\n',
        [0.0, 1.0], [5, 6], [2, 3],
    ),
    "a spreadsheet's": (
        "\ufeffarrival_s,input_tokens,output_tokens\r\n0,5,2\r\n\r\n1,6,3\r\n",
        [0.0, 1.0], [5, 6], [2, 3],
    ),
}  # fmt: skip


def parsed(text: str | bytes, count: int = 0) -> trace_file.Trace:
    content = text if isinstance(text, bytes) else text.encode()
    return trace_file.parse(io.BytesIO(content), "trace.csv", count)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize(("text", "arrival", "read", "written"), GOOD.values(), ids=GOOD)
def test_public_layouts_are_read_as_they_are(text, arrival, read, written, packed):
    content = gzip.compress(text.encode()) if packed else text.encode()
    requests = parsed(content).requests
    assert requests.arrival_s == pytest.approx(arrival, abs=1e-6)
    assert requests.input_tokens.tolist() == read
    assert requests.output_tokens.tolist() == written


def test_mooncakes_hashes_are_shared_blocks_of_512_tokens():
    requests = parsed(MOONCAKE).requests
    assert requests.block_tokens == 512
    assert [tuple(prefix) for prefix in requests.prefix] == [(0, 1, 2), (0, 1, 3), (4,)]


def test_hashes_may_stand_in_a_quoted_cell():
    rows = ('0,100,10,"[7, 8]"', '1,100,10,"[7, 9]"')
    text = "arrival_s,input_tokens,output_tokens,hash_ids\n" + "\n".join(rows)
    assert parsed(text).requests.prefix[1] == (7, 9)


def test_turns_of_a_session_follow_one_another_whatever_their_order():
    text = """arrival_s,input_tokens,output_tokens,session,turn,think_s
5,300,10,b,1,
0,100,20,a,1,
0,400,30,a,3,2.5
0,200,25,a,2,1.5
"""
    requests = parsed(text).requests
    assert requests.after.tolist() == [-1, 0, 1, -1]
    assert requests.arrival_s.tolist() == [0.0, 1.5, 2.5, 5.0]
    assert requests.input_tokens.tolist() == [100, 200, 400, 300]
    same, other = requests.prefix[0], requests.prefix[3]
    assert list(requests.prefix[2]) == list(same) and not set(same) & set(other)


def test_rows_out_of_order_are_sorted_and_said_so():
    trace = parsed("arrival_s,input_tokens,output_tokens\n3,1,1\n1,2,2\n2,3,3\n")
    assert trace.requests.input_tokens.tolist() == [2, 3, 1]
    assert trace.notes == ("the rows of trace.csv were sorted by their arrival",)


def test_the_first_requests_are_taken_and_said_so():
    trace = parsed(AZURE, 2)
    assert len(trace.requests) == 2 and trace.notes == ("the first 2 requests of trace.csv",)
    assert parsed(AZURE, 3).notes == ()


HEADER = "arrival_s,input_tokens,output_tokens\n"
BAD = {
    "empty": ("", "has no requests"),
    "header only": (HEADER, "has no requests"),
    "wrong columns": ("when,in,out\n1,2,3\n", "no column arrival_s; it needs .*, and has when, in"),
    "negative tokens": (HEADER + "0,-5,3\n", "line 2: '-5' is not a whole number of tokens"),
    "no output": (HEADER + "0,5,0\n", "line 2: '0' is not a whole number of tokens from 1"),
    "half a token": (HEADER + "0,5.5,3\n", "'5.5' is not a whole number"),
    "larger than any context": (HEADER + "0,1e12,3\n", "from 1 to 10,000,000"),
    "nan tokens": (HEADER + "0,nan,3\n", "'nan' is not a whole number"),
    "an arrival before the start": (HEADER + "-1,5,3\n", "line 2: arrival_s is -1, but it must"),
    "nan arrival": (HEADER + "nan,5,3\n", "'nan' is not a finite number"),
    "endless arrival": (HEADER + "inf,5,3\n", "'inf' is not a finite number"),
    "words": (HEADER + "0,many,3\n", "line 2: could not convert"),
    "no date": (AZURE + "yesterday,1,1\n", "line 5: 'yesterday' is not a date: write it as in 2"),
    "a missing cell": (HEADER + "0,5\n", "line 2: 2 cells under 3 columns"),
    "binary": (b"\x00\xff\xfe\x80" * 100, "is not a text file"),
    "damaged packing": (gzip.compress(AZURE.encode() * 99)[:60], "is damaged"),
    "no packing at all": (b"\x1f\x8b" + b"\x00" * 40, "is damaged"),
    "bad JSON": ('{"arrival_s": 0,\n', "line 1: not valid JSON"),
    "deep JSON": ('{"a":' * 100_000, "line 1: not valid JSON"),
    "a list": ('{"arrival_s": 0, "input_tokens": 5, "output_tokens": 1}\n[1]\n', "line 2: not a"),
    "a JSON array": ('[{"arrival_s": 0}]', "has no"),
    "a missing key": (
        '{"arrival_s": 0, "input_tokens": 5, "output_tokens": 1}\n{"arrival_s": 0}\n',
        "line 2: no input_tokens",
    ),
    "no hashes": (MOONCAKE.replace("[4]", "4"), "hash_ids is 4, but it must be a list"),
    "a long line": (HEADER + "0," + "1" * 1_000_001, "longer than 1,000,000 bytes"),
    "thinking backwards": (
        "arrival_s,input_tokens,output_tokens,session,turn,think_s\n0,5,3,a,1,-2\n",
        "think_s is -2",
    ),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
def test_what_is_no_trace_is_one_sentence(text: str | bytes, words: str):
    with pytest.raises(InvalidValue, match=words) as refused:
        parsed(text)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_more_requests_than_can_be_simulated_are_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(trace_file, "MOST_REQUESTS", 1000)
    lines = HEADER + "0,5,3\n" * 1001
    with pytest.raises(InvalidValue, match="more than 1,000 requests: name how many of the first"):
        parsed(lines)
    assert len(parsed(lines, 1000).requests) == 1000


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path):
    with pytest.raises(InvalidValue, match=r"absent\.csv: no such file"):
        trace_file.read(tmp_path / "absent.csv")
    with pytest.raises(InvalidValue, match="Is a directory"):
        trace_file.read(tmp_path)


def test_reading_can_be_cancelled(tmp_path: Path):
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "0,5,3\n" * 10)
    with pytest.raises(Cancelled, match=r"line 2 of trace\.csv"):
        trace_file.read(path, cancelled=lambda: True)


def test_lengths_need_no_arrivals(tmp_path: Path):
    path = tmp_path / "lengths.csv"
    path.write_text("input_tokens,output_tokens\n100,10\n200,20\n")
    assert trace_file.read_lengths(path).tolist() == [[100, 10], [200, 20]]
    path.write_text("input_tokens\n100\n")
    with pytest.raises(InvalidValue, match="no column output_tokens"):
        trace_file.read_lengths(path)
