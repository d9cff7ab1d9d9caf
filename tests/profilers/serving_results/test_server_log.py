"""Logs of servers: version, limits, split and room of the cache, as each engine prints them."""

import pytest

from genz_core.errors import ReportError
from profilers.serving_results import server_log

LOGS = {
    "vllm": """\
INFO 09-03 16:28:10 [api_server.py:1882] vLLM API server version 0.10.2
INFO 09-03 16:28:10 [utils.py:328] non-default args: {'model': 'm', 'tensor_parallel_size': 2, \
'gpu_memory_utilization': 0.95, 'kv_cache_dtype': 'fp8_e5m2', 'max_num_seqs': 64}
INFO 09-03 16:28:17 [scheduler.py:222] Chunked prefill is enabled with max_num_batched_tokens=2048.
INFO 09-03 16:28:23 [core.py:75] Initializing a V1 LLM engine (v0.10.2) with config: model='m', \
quantization=None, tensor_parallel_size=2, pipeline_parallel_size=1
(EngineCore_0 pid=7) INFO 09-03 16:29:01 [kv_cache_utils.py:849] GPU KV cache size: 922,496 tokens
""",
    "sglang": """\
[2026-03-01 10:00:00] server_args=ServerArgs(model_path='m', mem_fraction_static=0.88, \
max_running_requests=None, max_total_tokens=None, chunked_prefill_size=8192, tp_size=4, \
kv_cache_dtype='auto', quantization='fp8')
[2026-03-01 10:01:00 TP0] max_total_num_tokens=434571, chunked_prefill_size=8192, \
max_prefill_tokens=16384, max_running_requests=2048, context_len=131072
""",
    "trtllm": """\
[TensorRT-LLM] TensorRT-LLM version: 1.0.0
[TensorRT-LLM][INFO] TRTGptModel maxBatchSize: 128
[TensorRT-LLM][INFO] TRTGptModel maxNumTokens: 8192
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 78.30 GiB for max tokens in paged KV cache (373174).
""",
    "llama.cpp": """\
build: 6918 (8cf427ff) with cc (Ubuntu) for x86_64-linux-gnu
llama_model_loader: loaded meta data with 21 key-value pairs
llama_context: n_seq_max     = 4
llama_context: n_ctx         = 16384
llama_context: n_batch       = 2048
llama_context: n_ubatch      = 512
slot   load_model: id  0 | task -1 | new slot, n_ctx = 4096
slot   load_model: id  1 | task -1 | new slot, n_ctx = 4096
""",
}
STATED = {
    "vllm": {"engine_version": "0.10.2", "tp": 2, "pp": 1, "memory_fraction": 0.95,
             "kv": "fp8_e5m2", "max_num_seqs": 64, "max_num_batched_tokens": 2048,
             "kv_tokens": 922496},
    "sglang": {"memory_fraction": 0.88, "max_num_batched_tokens": 8192, "max_num_seqs": 2048,
               "kv_tokens": 434571, "tp": 4, "weights": "fp8"},
    "trtllm": {"engine_version": "1.0.0", "max_num_seqs": 128, "max_num_batched_tokens": 8192,
               "kv_tokens": 373174},
    "llama.cpp": {"engine_version": "b6918", "max_num_seqs": 2, "max_num_batched_tokens": 2048,
                  "kv_tokens": 16384},
}  # fmt: skip


@pytest.mark.parametrize("engine", LOGS)
def test_every_engine_says_its_limits(engine, tmp_path):
    path = tmp_path / "server.log"
    path.write_text(LOGS[engine])
    assert server_log.is_log(path)
    log = server_log.read(path)
    assert {name: one.value for name, one in log.stated.items()} == {
        "engine": engine, **STATED[engine],
    }  # fmt: skip
    assert all(one.evidence for one in log.stated.values()) and log.engine == engine
    for start in range(0, len(LOGS[engine]), 7):  # a log that begins late crashes nothing
        part = LOGS[engine][start:]
        if server_log.is_text(part):
            server_log.parse(part)


def test_the_last_line_counts_and_damaged_figures_are_left_out():
    text = LOGS["vllm"] + "INFO [x] max_num_seqs=256\nINFO [x] gpu_memory_utilization=7.5\n"
    stated = server_log.parse(text).stated
    assert stated["max_num_seqs"].value == 256 and stated["memory_fraction"].value == 0.95


@pytest.mark.parametrize("text", ["", '{"backend": "vllm", "max_num_seqs": 4}', "a,b\n1,2\n"])
def test_other_files_are_no_logs(text, tmp_path):
    path = tmp_path / "other"
    path.write_text(text)
    assert not server_log.is_log(path)
    with pytest.raises(ReportError, match="not a log of a known server"):
        server_log.read(path)
