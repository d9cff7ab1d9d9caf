"""A result beside the log of its server: the limits that it ran with are those that are priced."""

import json

import pytest

from app.benchmarks.deployment import deployment
from app.benchmarks.file_comparison import are_results, read_with_logs
from app.benchmarks.identity import of_run
from genz_core.errors import InvalidValue
from tests.app.benchmarks.conftest import HARDWARE, RUN
from tests.profilers.serving_results.test_server_log import LOGS


@pytest.fixture
def files(result, tmp_path):
    log = tmp_path / "server.log"
    log.write_text(LOGS["vllm"])
    return result({**RUN, "gpu": "NVIDIA H100 80GB HBM3"}), log


def test_the_log_fills_limits_split_version_and_cache(files):
    [measured] = read_with_logs(files)
    one = deployment(measured, {"weights": "bf16"})
    q = one.scenario
    assert (q.max_num_seqs, q.max_num_batched_tokens, q.kv_tokens) == (64, 2048, 922496)
    assert (q.tp, q.memory_fraction, q.engine_version) == (2, 0.95, "0.10.2")
    assert one.priced().model.precision.kv.startswith("fp8")
    known = {fact.field: fact for fact in of_run(one)}
    assert known["max_num_seqs"].certainty == "certain"
    assert "the server's log" in known["max_num_seqs"].evidence
    typed = deployment(measured, {**HARDWARE, "max_num_seqs": 8})
    assert (typed.scenario.max_num_seqs, typed.scenario.tp) == (8, 1), "what is typed goes first"


def test_commands_take_the_log_beside_the_result(files, answer, printed):
    found = answer("compare", *files)
    told = {one["field"]: one["value"] for one in found["runs"][0]["filled"]}
    assert told["max_num_seqs"] == 64 and told["kv_tokens"] == 922496
    [_, log] = answer("import", *files)
    assert log["kind"] == "server log" and log["stated"]["max_num_seqs"]["value"] == 64
    assert "max_num_seqs 64" in printed("import", files[1])
    with pytest.raises(InvalidValue, match="no measured run"):
        are_results([files[1]])


def test_limits_that_a_result_states_of_its_server_are_priced(tmp_path):
    from profilers.serving_results import read_results
    from tests.profilers.serving_results.conftest import RESULTS

    source = (RESULTS / "sglang" / "llama_405b_online_output.jsonl").read_text().splitlines()[0]
    record = {**json.loads(source), "server_info": {
        "max_running_requests": 128, "chunked_prefill_size": 4096, "mem_fraction_static": 0.85,
        "max_total_num_tokens": 10**14, "version": "0.4.6"}}  # fmt: skip
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps(record))
    [measured] = read_results(path)
    q = deployment(measured, {"system": "h200", "tp": 8}).scenario
    assert (q.max_num_seqs, q.max_num_batched_tokens) == (128, 4096)
    assert q.memory_fraction == 0.85 and q.engine_version == "0.4.6"
    assert q.kv_tokens == 0, "no cache holds so many: a damaged figure costs itself"
