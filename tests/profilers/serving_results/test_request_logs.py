"""Logs with a row per request: arrivals on one clock, tokens on another, failed requests
excluded.
"""

import json

import pytest

from profilers.comparison.account import failed, of_result
from profilers.serving_results import is_result, read_results

#: Four requests, half a second apart: prompts, answers, wait, first and last token after it [s].
REQUESTS = [
    (100, 11, 0.03125, 0.15625), (200, 21, 0.0625, 0.3125), (300, 31, 0.03125, 0.40625),
    (50, 1, 0.0625, 0.0625),
]  # fmt: skip


def lines():
    """Arrivals in wall-clock time, tokens on a clock that started with the machine."""
    for at, (isl, osl, first, last) in enumerate(REQUESTS):
        queued = 77.0 + 0.5 * at
        yield json.dumps({
            "request_id": f"r{at}", "input_toks": isl, "output_toks": osl,
            "arrival_time": 1.7e9 + 0.5 * at, "queued_ts": queued, "scheduled_ts": queued + 0.0125,
            "first_token_ts": queued + first, "last_token_ts": queued + last,
        })  # fmt: skip


def table():
    yield (
        "request_id,model,input_tokens,output_tokens,arrival_time_us,send_time_us,"
        "first_chunk_time_us,last_chunk_time_us,num_chunks,status,error_message"
    )
    for at, (isl, osl, first, last) in enumerate(REQUESTS):
        sent = 10_000_000 + 500_000 * at
        times = f"{sent - 1000},{sent},{sent + first * 1e6:.0f},{sent + last * 1e6:.0f}"
        yield f"{at},Qwen/Qwen3-8B,{isl},{osl},{times},{osl},ok,"
    yield "9,Qwen/Qwen3-8B,40,7,1,12000000,0,0,0,timeout,too late"


def spans():
    for at, (isl, osl, first, last) in enumerate(REQUESTS):
        told = {
            "gen_ai.response.model": {"stringValue": "Qwen/Qwen3-8B"},
            "gen_ai.usage.prompt_tokens": {"intValue": str(isl)},
            "gen_ai.usage.completion_tokens": {"intValue": str(osl)},
            "gen_ai.latency.time_to_first_token": {"doubleValue": first},
            "gen_ai.latency.e2e": {"doubleValue": last},
            "gen_ai.latency.time_in_queue": {"doubleValue": 0.0125},
        }
        start = 1_700_000_000_000_000_000 + 500_000_000 * at
        span = {
            "name": "llm_request", "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + int(last * 1e9)),
            "attributes": [{"key": key, "value": value} for key, value in told.items()],
        }  # fmt: skip
        other = {"name": "tokenize", "startTimeUnixNano": "1", "attributes": []}
        yield json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [other, span]}]}]})


FORMS = {"lines": lines, "table": table, "spans": spans}


@pytest.fixture(params=FORMS)
def log(request, tmp_path):
    path = tmp_path / "log"
    path.write_text("\n".join(FORMS[request.param]()) + "\n")
    return path


def test_every_form_says_the_same_of_the_same_requests(log):
    assert is_result(log)
    [one] = read_results(log)
    rows = one.requests[one.requests["ok"]]
    assert rows["arrival_s"].tolist() == pytest.approx([0.0, 0.5, 1.0, 1.5])
    assert rows["isl"].tolist() == [100, 200, 300, 50] and rows["osl"].tolist() == [11, 21, 31, 1]
    assert rows["ttft_s"].tolist() == pytest.approx([0.03125, 0.0625, 0.03125, 0.0625], abs=1e-6)
    assert rows["e2e_s"].tolist() == pytest.approx([0.15625, 0.3125, 0.40625, 0.0625], abs=1e-6)
    assert one.tpot_s.mean == pytest.approx(0.0125, rel=1e-4) and one.load.completed == 4
    assert not failed(of_result(one))
    assert one.subject.model in ("Qwen/Qwen3-8B", None)


def test_failed_requests_and_unknown_first_tokens_count_in_no_latency(tmp_path):
    path = tmp_path / "trace_data.csv"
    path.write_text("\n".join([*table(), "10,Qwen/Qwen3-8B,40,7,1,13000000,0,14000000,7,ok,"]))
    [one] = read_results(path)
    assert one.load.errors == 1 and one.load.completed == 5
    assert one.ttft_s.count == 4 and one.e2e_s.count == 5
