"""An endpoint under a stated load: our own client, other clients, addresses, pages."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from genz_core.common.progress import Cancelled
from genz_core.errors import InvalidValue, MeasurementError
from profilers.collect.serving import addresses, clients, endpoint
from profilers.collect.serving.client import Server
from profilers.collect.serving.endpoint_load import EndpointLoad
from tests.profilers.collect.serving.sse_server import Behaviour, serving

PAGE = """vllm:num_requests_running{{model_name="small"}} 2.0
vllm:kv_cache_usage_perc{{model_name="small"}} 0.5
vllm:request_success_total{{model_name="small"}} {requests}.0
vllm:generation_tokens_total{{model_name="small"}} {tokens}.0
vllm:time_to_first_token_seconds_bucket{{le="0.1",model_name="small"}} {requests}.0
vllm:time_to_first_token_seconds_bucket{{le="+Inf",model_name="small"}} {requests}.0
vllm:time_to_first_token_seconds_sum{{model_name="small"}} {seconds}
vllm:time_to_first_token_seconds_count{{model_name="small"}} {requests}.0
"""


def run(server: Behaviour, load: EndpointLoad, folder: Path, **more):
    return endpoint.measure(Server(server.address, ""), load, folder, client="own", **more)


def test_a_closed_loop_has_the_lengths_and_the_users_that_were_asked(tmp_path: Path):
    with serving(first_s=0.02, gap_s=0.01) as server:
        found = run(server, EndpointLoad(concurrency=3, requests=9, isl=40, osl=5), tmp_path)
    measured = found.measurement
    assert server.most_open == 3 and found.client == "own"
    assert measured.load.concurrency == 3 and measured.load.completed == 9
    assert measured.lengths.osl.mean == 5 and measured.lengths.isl_asked == 40
    assert measured.ttft_s.minimum is None and measured.ttft_s.p50 >= 0.02
    assert measured.tpot_s.mean >= 0.01 and measured.subject.tool == "ridgeline"
    assert measured.requests is not None and len(measured.requests) == 9


@pytest.mark.slow
def test_an_open_loop_sends_at_its_rate_whether_or_not_answers_come(tmp_path: Path):
    with serving(first_s=0.3) as server:
        found = run(server, EndpointLoad(rate=40.0, requests=20, osl=1, isl=10), tmp_path)
    assert server.most_open > 5
    assert found.measurement.load.rate == 40 and found.measurement.load.concurrency is None
    assert found.measurement.requests is not None
    gaps = np.random.default_rng(0).exponential(1 / 40, 20)
    assert found.measurement.requests["arrival_s"].max() > 0.9 * (gaps.sum() - gaps[0])


def test_the_servers_own_page_is_looked_at_before_and_after(tmp_path: Path):
    pages = iter(
        [PAGE.format(requests=10, tokens=100, seconds=1.0),
         PAGE.format(requests=14, tokens=180, seconds=1.2)]
    )  # fmt: skip
    with serving(page=pages) as server:
        found = run(server, EndpointLoad(concurrency=1, requests=4, osl=2), tmp_path)
    assert found.server is not None and found.server.server["requests"] == 4
    assert found.server.ttft_s.mean == pytest.approx(0.05)
    assert found.measurement.subject.engine == "vllm"
    assert found.measurement.server["kv_cache_use"] == 0.5
    assert {path.name for path in tmp_path.iterdir()} >= {endpoint.BEFORE, endpoint.AFTER}


def test_a_page_is_watched_for_some_seconds():
    pages = iter([PAGE.format(requests=1, tokens=10, seconds=0.1)] * 2)
    with serving(page=pages) as server:
        found = endpoint.watch(server.address, seconds=0.2)
    assert found.server["requests"] == 0 and found.server["requests_running"] == 2


def test_a_server_without_a_page_of_an_engine_is_said():
    with serving() as server, pytest.raises(MeasurementError, match="has no page /metrics"):
        endpoint.watch(server.address)
    with (
        serving(page=iter(["python_info 1.0\n"])) as server,
        pytest.raises(MeasurementError, match="no metrics of vLLM or SGLang"),
    ):
        endpoint.watch(server.address)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "either a concurrency or a rate"),
        ({"concurrency": 2, "rate": 1.0}, "either a concurrency or a rate"),
        ({"concurrency": 5000}, "concurrency = 5,000"),
        ({"rate": 5000.0}, "rate = 5000"),
        ({"concurrency": 8, "requests": 4}, "are too few for 8 users"),
    ],
)
def test_a_load_that_cannot_be_is_one_sentence(settings: dict, words: str):
    with pytest.raises(InvalidValue, match=words):
        EndpointLoad(**settings)


def test_a_rate_lasts_half_a_minute_unless_the_requests_are_said():
    assert EndpointLoad(rate=4.0).count == 120 and EndpointLoad(rate=0.1).count == 20
    assert EndpointLoad(concurrency=3).count == 30


def test_only_this_machine_is_loaded_unless_told():
    for here in ("http://localhost:8000", "http://127.0.0.1:1/v1", "http://[::1]:8000"):
        addresses.require_loopback(here)
    with pytest.raises(MeasurementError, match="is another machine; add --allow-remote"):
        addresses.require_loopback("http://192.0.2.1:8000")
    addresses.require_loopback("http://192.0.2.1:8000", allowed=True)


def test_a_failing_request_ends_the_open_loop(tmp_path: Path):
    with (
        serving(fault="ends_early", good=4) as server,
        pytest.raises(MeasurementError, match="without a finish_reason"),
    ):
        run(server, EndpointLoad(rate=50.0, requests=30, osl=4), tmp_path)


def test_an_open_loop_can_be_stopped(tmp_path: Path):
    with serving(first_s=0.05) as server, pytest.raises(Cancelled):
        run(
            server, EndpointLoad(rate=2.0, requests=50, osl=2), tmp_path,
            cancelled=lambda: len(server.bodies) > 4,
        )  # fmt: skip


# ------------------------------------------------------------------------------- other clients

RECORD = {
    "date": "20261101-120000", "backend": "openai", "model_id": "small", "num_prompts": 4,
    "request_rate": "inf", "max_concurrency": 2, "duration": 1.0, "completed": 4,
    "total_input_tokens": 40, "total_output_tokens": 8, "request_throughput": 4.0,
    "mean_ttft_ms": 10.0, "mean_tpot_ms": 5.0,
}  # fmt: skip


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a program on the PATH that records its arguments and runs some Python."""

    def put(name: str, body: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / name
        script.write_text(
            f"#!{sys.executable}\nimport json, pathlib, sys\n"
            f"pathlib.Path({str(folder / 'argv')!r}).write_text(json.dumps(sys.argv[1:]))\n{body}\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")
        return folder / "argv"

    return put


def test_vllms_client_is_run_with_the_load_and_its_result_read(tmp_path: Path, program):
    argv = program(
        "vllm",
        "folder = sys.argv[sys.argv.index('--result-dir') + 1]\n"
        f"pathlib.Path(folder, 'result.json').write_text({json.dumps(json.dumps(RECORD))})",
    )
    folder = tmp_path / "run"
    folder.mkdir()
    with serving() as server:
        found = endpoint.measure(
            Server(server.address, ""),
            EndpointLoad(concurrency=2, requests=4, isl=10, osl=2),
            folder,
        )
    asked = json.loads(argv.read_text())
    assert found.client == "vllm" and found.measurement.ttft_s.mean == pytest.approx(0.01)
    assert asked[asked.index("--max-concurrency") + 1] == "2"
    assert asked[asked.index("--random-input-len") + 1] == "10"
    assert asked[asked.index("--model") + 1] == "small"


def test_an_older_guidellm_is_asked_as_it_knows(tmp_path: Path, program):
    argv = program("guidellm", "print('Error: No such command'); sys.exit(2)")
    with serving() as server, pytest.raises(MeasurementError, match="ended with 2: Error: No such"):
        endpoint.measure(Server(server.address, ""), EndpointLoad(rate=2.0), tmp_path)
    assert json.loads(argv.read_text())[0] == "benchmark"


def test_a_client_that_is_not_there_is_one_sentence(program):
    program("other", "")
    with pytest.raises(MeasurementError, match="aiperf is not on the PATH"):
        clients.named("aiperf")
    with pytest.raises(MeasurementError, match="no client is called 'wrk'"):
        clients.named("wrk")
    assert clients.installed() == []
