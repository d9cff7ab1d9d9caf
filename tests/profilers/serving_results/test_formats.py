"""Formats of versions without a committed file, written as their source code writes them."""

import json
import math
from collections.abc import Callable

import pytest

from app.answers.table import to_csv
from genz_core.errors import ReportError
from profilers.serving_results import ServingMeasurement, read_results, table

Read = Callable[..., list[ServingMeasurement]]


def test_sglangs_console_names_backend_rate_and_model(read_text: Read) -> None:
    [found] = read_text(
        "Namespace(backend='sglang', model='a/b', dataset_name='random', random_input_len=1024,"
        " random_output_len=512, num_prompts=100)\n"
        "============ Serving Benchmark Result ============\n"
        "Backend:                                 sglang    \n"
        "Traffic request rate:                    4.0       \n"
        "Max request concurrency:                 not set   \n"
        "Successful requests:                     98        \n"
        "Benchmark duration (s):                  50.00     \n"
        "Total input tokens:                      98000     \n"
        "Total generated tokens:                  49000     \n"
        "Concurrency:                             7.25      \n"
        "----------------End-to-End Latency----------------\n"
        "Mean E2E Latency (ms):                   3000.00   \n"
        "---------------Time to First Token----------------\n"
        "P99 TTFT (ms):                           250.00    \n"
        "---------------Inter-Token Latency----------------\n"
        "P95 ITL (ms):                            30.00     \n"
        "==================================================\n"
    )
    assert found.subject.engine == "sglang" and found.subject.model == "a/b"
    assert (found.load.rate, found.load.concurrency, found.load.requests) == (4, None, 100)
    assert found.load.concurrency_mean == 7.25
    assert found.lengths.isl.mean == 1000 and found.lengths.isl_asked == 1024
    assert found.e2e_s.mean == 3 and found.ttft_s.at[99] == 0.25 and found.itl_s.at[95] == 0.03
    assert found.throughput.output_tokens_per_s == pytest.approx(980)


def test_vllms_throughput_line_is_read(read_text: Read) -> None:
    [found] = read_text(
        "Throughput: 2.50 requests/s, 900.00 total tokens/s, 300.00 output tokens/s"
    )
    assert found.throughput.output_tokens_per_s == 300
    [older] = read_text("Throughput: 2.50 requests/s, 900.00 tokens/s\n")
    assert older.throughput.output_tokens_per_s is None


def test_vllms_latency_file_is_a_batch(read_text: Read) -> None:
    [found] = read_text('{"avg_latency": 2.0, "latencies": [1.9, 2.1], "percentiles": {"50": 2.0}}')
    assert found.e2e_s.mean == pytest.approx(2.0) and found.subject.engine == "vllm"


def test_llama_benchs_sql_and_json_lines_say_the_same(read_text: Read) -> None:
    [line] = read_text(
        '{"build_commit": "abc1234", "build_number": 9, "gpu_info": "A, A", "n_gpu_layers": 99, '
        '"model_type": "llama 8B F16", "n_prompt": 0, "n_gen": 64, "n_depth": 0, '
        '"test_time": "2026-01-01T00:00:00Z", "avg_ns": 640000000, "stddev_ns": 0, '
        '"avg_ts": 100.0, "stddev_ts": 0.0}\n'
    )
    [sql] = read_text(
        "CREATE TABLE IF NOT EXISTS test (build_commit TEXT);\n"
        "INSERT INTO test (build_commit, build_number, gpu_info, n_gpu_layers, model_type, "
        "n_prompt, n_gen, n_depth, test_time, avg_ns, avg_ts) VALUES ('abc1234', '9', 'A, A', "
        "'99', 'llama 8B F16', '0', '64', '0', '2026-01-01T00:00:00Z', '640000000', '100.0');\n"
    )
    for found in (line, sql):
        assert found.tpot_s.mean == pytest.approx(0.01) and found.phase == "decode"
        assert (found.subject.device, found.subject.devices) == ("A", 2)
        assert found.subject.precision == "F16"


def test_a_damaged_statement_of_llama_bench_is_refused_in_a_sentence(read_text: Read) -> None:
    model = "m" * 140_000  # beyond the longest cell that Python's csv reads
    with pytest.raises(ReportError, match="a statement is damaged"):
        read_text(
            "CREATE TABLE IF NOT EXISTS test (build_commit TEXT);\n"
            "INSERT INTO test (build_commit, build_number, gpu_info, n_gpu_layers, model_type, "
            "n_prompt, n_gen, n_depth, test_time, avg_ns, avg_ts) VALUES ('abc1234', '9', 'A', "
            f"'99', '{model}', '0', '64', '0', '2026-01-01T00:00:00Z', '640000000', '100.0');\n"
        )


def test_a_llama_bench_without_layers_on_the_gpu_ran_on_the_processor(read_text: Read) -> None:
    [found] = read_text(
        '[{"cpu_info": "Some CPU", "gpu_info": "Some GPU", "n_gpu_layers": 0, "n_prompt": 128, '
        '"n_gen": 32, "avg_ns": 2e9, "avg_ts": 80.0, "model_type": "x 1B Q8_0"}]'
    )
    assert found.subject.device == "Some CPU"
    assert found.e2e_s.mean == 2 and found.subject.label == "pp128+tg32" and not found.phase


def test_llama_batched_bench_gives_batches(read_text: Read) -> None:
    table_text = (
        "|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |"
        "      T s |    S t/s |\n"
        "|-------|--------|------|--------|----------|----------|----------|----------|"
        "----------|----------|\n"
        "|   128 |     64 |    4 |    768 |    0.500 |  1024.00 |    2.000 |   128.00 |"
        "    2.500 |   307.20 |\n"
    )
    [found] = read_text(table_text)
    assert found.load.concurrency == 4 and found.ttft_s.mean == 0.5
    assert found.tpot_s.mean == pytest.approx(2 / 64)
    assert found.throughput.output_tokens_per_s == pytest.approx(4 * 64 / 2.5)
    [line] = read_text('{"pp": 128, "tg": 64, "pl": 4, "t_pp": 0.5, "t_tg": 2.0, "t": 2.5}')
    assert line.e2e_s.mean == 2.5


def test_genai_perfs_csv_says_what_its_json_says(read_text: Read) -> None:
    [found] = read_text(
        "Metric,avg,min,max,p99,p95,p90,p75,p50,p25\r\n"
        "Time To First Token (ms),120.50,90.00,300.00,290.00,250.00,200.00,130.00,110.00,100.00\r\n"
        "Inter Token Latency (ms),15.25,10.00,20.00,19.00,18.00,17.00,16.00,15.00,14.00\r\n"
        'Request Latency (ms),"5,000.00",1,2,3,4,5,6,7,8\r\n'
        "Output Sequence Length,256.00,250,260,259,258,257,256,256,255\r\n"
        "\r\nMetric,Value\r\nOutput Token Throughput (per sec),512.00\r\n"
        "Request Throughput (per sec),2.00\r\n"
    )
    assert found.format == "genai-perf"
    assert found.ttft_s.mean == pytest.approx(0.1205) and found.tpot_s.at[99] == pytest.approx(
        0.019
    )
    assert found.e2e_s.mean == pytest.approx(5.0) and found.lengths.osl.mean == 256
    assert found.throughput.output_tokens_per_s == 512


def test_aiperfs_csv_takes_the_gpu_from_its_telemetry(read_text: Read) -> None:
    [found] = read_text(
        "Metric,avg,min,max,p1,p5,p10,p25,p50,p75,p90,p95,p99,std\n"
        "Request Latency (ms),100.00,1,2,3,4,5,6,7,8,9,10,11,12\n"
        "Time to First Token (ms),20.00,1,2,3,4,5,6,7,8,9,10,11,12\n"
        "\nMetric,Value\nRequest Count,64.00\nBenchmark Duration (sec),10.00\n"
        "\n\nEndpoint,GPU_Index,GPU_Name,GPU_UUID,Metric,avg\n"
        "localhost:9400,0,NVIDIA H100 80GB HBM3,GPU-1,GPU Power Usage (W),500\n"
    )
    assert found.format == "aiperf" and found.load.completed == 64
    assert found.load.duration_s == 10 and found.subject.device == "NVIDIA H100 80GB HBM3"


def test_perf_analyzers_profile_has_the_times_of_every_request(read_text: Read) -> None:
    profile = {
        "service_kind": "openai",
        "experiments": [
            {
                "experiment": {"mode": "concurrency", "value": 2},
                "requests": [
                    {"timestamp": 10**9, "response_timestamps": [1.1e9, 1.15e9, 1.2e9]},
                    {"timestamp": 2 * 10**9, "response_timestamps": [2.3e9]},
                ],
            }
        ],
    }
    [found] = read_text(json.dumps(profile))
    assert found.load.concurrency == 2 and found.requests is not None
    assert found.requests["ttft_s"].tolist() == pytest.approx([0.1, 0.3])
    assert found.itl_s.mean == pytest.approx(0.05)


def test_guidellms_older_reports_and_tables_are_read(read_text: Read) -> None:
    def spread(value: float) -> dict:
        return {"successful": {"mean": value, "median": value, "percentiles": {"p99": value}}}

    benchmark = {
        "args": {"strategy": {"type_": "concurrent", "streams": 8}},
        "worker": {"backend_type": "openai_http", "backend_model": "a/b"},
        "run_stats": {"requests_made": {"successful": 9, "errored": 1, "total": 10}},
        "duration": 30.0,
        "metrics": {
            "time_to_first_token_ms": spread(50.0), "inter_token_latency_ms": spread(10.0),
            "time_per_output_token_ms": spread(12.0), "request_latency": spread(1.5),
            "output_tokens_per_second": spread(80.0), "prompt_token_count": spread(256.0),
        },
    }  # fmt: skip
    [found] = read_text(json.dumps({"benchmarks": [benchmark]}))
    assert found.load.concurrency == 8 and found.load.errors == 1
    assert found.subject.model == "a/b" and found.decode_tpot_s.at[99] == pytest.approx(0.01)
    [row] = read_text(
        "Type,Run Id,Id,Name,Start Time,End Time,Duration,Successful Requests,"
        "Successful Time to first token ms mean,Successful Time to first token ms median,"
        'Successful Inter token latency ms mean,"Successful Inter token latency ms '
        '[min, 0.1, 1, 5, 10, 25, 75, 90, 95, 99, max]",Profile\n'
        "generative_benchmark,1,2,constant@2.50,x,y,60.0,140,55.0,50.0,11.0,"
        '"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20]","{""type_"": ""async""}"\n'
    )
    assert row.load.rate == 2.5 and row.load.completed == 140
    assert row.ttft_s.p50 == pytest.approx(0.05) and row.itl_s.at[99] == pytest.approx(0.01)


def test_guidellms_table_of_three_header_rows_is_read(read_text: Read) -> None:
    [row] = read_text(
        "Run Info,Benchmark,Timings,Request Counts,Time to First Token,Inter Token Latency\n"
        "Run ID,Strategy,Duration,Successful,Successful ms,Successful ms\n"
        ",,Sec,,Mean,Median\n"
        "abc,poisson,30.0,12,44.0,9.0\n"
    )
    assert row.load.duration_s == 30 and row.load.completed == 12
    assert row.ttft_s.mean == pytest.approx(0.044) and row.itl_s.p50 == pytest.approx(0.009)
    assert row.load.burstiness == 1


def test_inferencexs_aggregate_states_hardware_and_rates_per_gpu(read_text: Read) -> None:
    run = {
        "hw": "h200", "tp": 8, "ep": 1, "conc": 64, "model": "a/b", "framework": "sglang",
        "precision": "fp8", "isl": 1024, "osl": 512, "tput_per_gpu": 300.0,
        "output_tput_per_gpu": 100.0, "input_tput_per_gpu": 200.0, "median_ttft": 0.25,
        "p99_tpot": 0.02, "median_intvty": 70.0,
    }  # fmt: skip
    [found] = read_text(json.dumps([run]))
    assert found.subject.devices == 8 and found.subject.engine == "sglang"
    assert found.throughput.output_tokens_per_s == 800
    assert found.ttft_s.p50 == 0.25 and found.tpot_s.at[99] == 0.02
    split = run | {"disagg": True, "num_prefill_gpu": 4, "num_decode_gpu": 12}
    [found] = read_text(json.dumps(split))
    assert found.throughput.output_tokens_per_s == 1200 and found.subject.degrees == {}


def test_trtllm_benchs_report_and_console_say_the_same(read_text: Read) -> None:
    report = {
        "engine": {"model": "a/b", "version": "1.1.0", "dtype": "bfloat16", "quantization": "FP8"},
        "machine": {"name": "NVIDIA H100 80GB HBM3"},
        "world_info": {"tp_size": 2, "pp_size": 1, "world_size": 2},
        "request_info": {
            "num_requests": 1000, "avg_num_concurrent_requests": 90.5,
            "avg_input_length": 128.0, "avg_output_length": 64.0,
        },
        "performance": {
            "total_latency_ms": 5000.0, "request_throughput_req_s": 200.0,
            "system_output_throughput_tok_s": 12800.0, "avg_request_latency_ms": 450.0,
        },
        "streaming_metrics": {
            "avg_ttft_ms": 40.0, "avg_tpot_ms": 6.5,
            "ttft_percentiles": {"average": 40.0, "p50": 38.0, "p99": 90.0, "minimum": 9.0},
        },
    }  # fmt: skip
    [found] = read_text(json.dumps(report))
    assert found.subject.degrees == {"tp": 2, "pp": 1} and found.subject.device
    assert found.subject.precision == "FP8" and found.ttft_s.at[99] == pytest.approx(0.09)
    [printed] = read_text(
        "===========\n= PYTORCH BACKEND\n===========\nModel:\t\t\ta/b\n"
        "TensorRT LLM Version:\t1.1.0\nQuantization:\t\tFP8\n"
        "TP Size:                2\nNumber of requests:             1000\n"
        "Average Input Length (tokens):  128.0000\n"
        "= PERFORMANCE OVERVIEW \n"
        "Request Throughput (req/sec):                     200.0000\n"
        "Total Latency (ms):                               5000.0000\n"
        "Average time-per-output-token [TPOT] (ms):        6.5000\n"
        "[TTFT] P99    : 90.0000\n[TTFT] AVERAGE: 40.0000\n"
    )
    assert printed.load.requests == 1000 and printed.tpot_s.mean == pytest.approx(0.0065)
    assert printed.ttft_s.at[99] == found.ttft_s.at[99] and printed.load.duration_s == 5


def test_inference_perfs_requests_are_rows(read_text: Read) -> None:
    entry = {
        "start_time": 100.0, "end_time": 100.5, "request": "x", "response": "y", "error": None,
        "info": {
            "input_tokens": 20, "output_tokens": 3, "output_token_times": [100.1, 100.3, 100.5],
        },
    }  # fmt: skip
    failed = entry | {"start_time": 101.0, "error": {"error_type": "timeout"}}
    [found] = read_text(json.dumps([entry, failed]))
    assert found.load.errors == 1 and found.load.completed == 1
    assert found.ttft_s.mean == pytest.approx(0.1) and found.tpot_s.mean == pytest.approx(0.2)


def test_llmds_first_version_is_read_with_its_units(read_text: Read) -> None:
    text = (
        "version: '0.1'\n"
        "scenario:\n"
        "  host:\n    accelerator:\n    - model: H100\n      count: 2\n"
        "      parallelism: {tp: 2, dp: 1}\n"
        "  model: {name: a/b}\n"
        "  platform:\n    engine:\n    - name: vllm\n      version: 0.10.0\n"
        "metrics:\n"
        "  time: {duration: 20.5}\n"
        "  requests:\n    total: 50\n    failures: 2\n"
        "    input_length: {units: count, mean: 100.0}\n"
        "  latency:\n"
        "    time_to_first_token: {units: ms, mean: 250.0, p99: 900.0}\n"
        "    inter_token_latency: {units: ms/token, mean: 12.0}\n"
        "  throughput: {output_tokens_per_sec: 480.0, requests_per_sec: 2.4}\n"
    )
    [found] = read_text(text)
    assert found.ttft_s.at[99] == pytest.approx(0.9) and found.itl_s.mean == pytest.approx(0.012)
    assert found.subject.degrees == {"tp": 2, "dp": 1} and found.subject.engine == "vllm"
    assert found.load.completed == 48 and found.load.duration_s == 20.5


def test_llmperfs_summary_is_unfolded(read_text: Read) -> None:
    summary = {
        "name": "x_summary", "model": "a/b", "mean_input_tokens": 550, "mean_output_tokens": 150,
        "num_concurrent_requests": 4, "results_ttft_s_mean": 0.3,
        "results_ttft_s_quantiles_p99": 0.9, "results_end_to_end_latency_s_mean": 3.0,
        "results_inter_token_latency_s_mean": 0.02, "results_num_completed_requests": 60,
        "results_num_completed_requests_per_min": 30.0,
        "results_mean_output_throughput_token_per_s": 75.0,
    }  # fmt: skip
    [found] = read_text(json.dumps(summary))
    assert found.load.concurrency == 4 and found.load.duration_s == pytest.approx(120)
    assert found.ttft_s.at[99] == 0.9 and found.tpot_includes_first and not found.decode_tpot_s


def test_mlperfs_summary_is_read_in_nanoseconds(read_text: Read) -> None:
    [found] = read_text(
        "================================================\n"
        "MLPerf Results Summary\n"
        "================================================\n"
        "SUT name : PySUT\nScenario : Server\nMode     : PerformanceOnly\n"
        "Completed samples per second    : 10.50\nResult is : VALID\n"
        "Mean latency (ns)               : 2000000000\n"
        "99.00 percentile latency (ns)   : 3000000000\n\n"
        "Completed tokens per second                 : 3000.25\n"
        "Mean First Token latency (ns)               : 500000000\n"
        "99.90 percentile first token latency (ns)   : 900000000\n"
        "Mean Time to Output Token (ns)              : 20000000\n"
        "99.00 percentile time to output token (ns)   : 30000000\n"
        "target_qps : 11\n"
    )
    assert found.load.rate == 11 and found.throughput.output_tokens_per_s == 3000.25
    assert found.e2e_s.at[99] == pytest.approx(3) and found.ttft_s.at[99.9] == pytest.approx(0.9)
    assert found.tpot_s.at[99] == pytest.approx(0.03)
    assert found.throughput.requests_per_s == 10.5


_PAGE = """# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a/b"} 3.0
vllm:num_requests_running{engine="1",model_name="a/b"} 2.0
vllm:num_requests_waiting{engine="0",model_name="a/b"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="a/b"} 0.25
vllm:cache_config_info{block_size="16",cache_dtype="fp8"} 1.0
vllm:generation_tokens_total{engine="0",model_name="a/b"} 1000.0
vllm:request_success_total{finished_reason="length",model_name="a/b"} 10.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_sum{model_name="a/b"} 2.0
vllm:time_to_first_token_seconds_bucket{le="0.1",model_name="a/b"} 2.0
vllm:time_to_first_token_seconds_bucket{le="0.25",model_name="a/b"} 8.0
vllm:time_to_first_token_seconds_bucket{le="+Inf",model_name="a/b"} 10.0
vllm:time_to_first_token_seconds_count{model_name="a/b"} 10.0
"""


def test_a_metrics_page_gives_load_cache_and_histograms(read_text: Read) -> None:
    [found] = read_text(_PAGE)
    assert found.subject.engine == "vllm" and found.subject.model == "a/b"
    assert found.subject.kv_precision == "fp8"
    assert found.server["requests_running"] == 5 and found.server["kv_cache_use"] == 0.25
    assert found.ttft_s.mean == pytest.approx(0.2) and found.ttft_s.count == 10
    # the 5th of 10 lies in the middle of the second bucket; the 99th percentile in the unbounded
    # one
    assert found.ttft_s.p50 == pytest.approx(0.1 + 0.15 * 3 / 6)
    assert found.ttft_s.at.get(99) is None
    assert "since the process started" in found.notes[0]


def test_sglangs_metrics_page_is_read_by_its_names(read_text: Read) -> None:
    [found] = read_text(
        'sglang:num_running_reqs{model_name="m"} 4.0\nsglang:num_queue_reqs{model_name="m"} 2.0\n'
        'sglang:token_usage{model_name="m"} 0.5\nsglang:gen_throughput{model_name="m"} 90.0\n'
        'sglang:inter_token_latency_seconds_bucket{model_name="m",le="0.02"} 5.0\n'
        'sglang:inter_token_latency_seconds_bucket{model_name="m",le="+Inf"} 5.0\n'
        'sglang:inter_token_latency_seconds_count{model_name="m"} 5.0\n'
        'sglang:inter_token_latency_seconds_sum{model_name="m"} 0.05\n'
    )
    assert found.subject.engine == "sglang" and found.server["requests_waiting"] == 2
    assert found.itl_s.mean == pytest.approx(0.01) and found.itl_s.p50 == pytest.approx(0.01)


def test_our_own_table_is_read_back_as_it_was_written(read_text: Read, results) -> None:
    path = results / "aiperf" / "profile_export_aiperf.json"
    written = table(read_results(path))
    [found] = read_text(to_csv(written))
    again = table([found])[0]
    same = (
        "model",
        "device",
        "concurrency",
        "isl",
        "osl",
        "ttft_p99_s",
        "tpot_mean_s",
        "e2e_std_s",
    )
    assert {name: again[name] for name in same} == {name: written[0][name] for name in same}


def test_a_plain_table_needs_few_columns(read_text: Read) -> None:
    found = read_text(
        "model;device;tp;rate;isl;osl;ttft_p99_ms;tpot_median_ms\n"
        "a/b;H100;2;inf;1024;128;250;12\na/b;H100;2;4;1024;128;150;11\n"
    )
    assert [m.load.rate for m in found] == [math.inf, 4]
    assert found[1].subject.degrees == {"tp": 2}
    assert found[1].ttft_s.at[99] == pytest.approx(0.15) and found[1].tpot_s.p50 == pytest.approx(
        0.011
    )


def test_a_plain_table_says_which_of_its_figures_cannot_be(read_text: Read) -> None:
    [found] = read_text("concurrency,isl,osl,ttft_mean_s,tpot_mean_ms\n-16,1024,256,0.06,nan\n")
    assert found.load.concurrency is None and not found.tpot_s
    assert found.notes == ("figures that cannot be are left out: mean TPOT nan s, concurrency -16",)


def test_statistics_of_other_tools_that_cannot_be_are_named(read_text: Read, results) -> None:
    record = json.loads((results / "aiperf" / "profile_export_aiperf.json").read_text())
    record["time_to_first_token"]["p99"] = -1.0
    record["output_token_throughput"]["avg"] = math.nan
    [found] = read_text(json.dumps(record))
    assert 99.0 not in found.ttft_s.at and found.throughput.output_tokens_per_s is None
    note = found.notes[-1]
    assert "p99 TTFT -0.001 s" in note and "output_tokens_per_s nan" in note


def test_a_file_name_fills_what_the_record_leaves_out(read_text: Read) -> None:
    record = '{"elapsed_time": 10.0, "num_requests": 4, "total_num_tokens": 400, ' \
        '"requests_per_second": 0.4, "tokens_per_second": 40.0}'  # fmt: skip
    [named] = read_text(record, "mi300x8_req4_in64_out36_tp8.json")
    assert (named.subject.device, named.subject.devices) == ("MI300X", 8)
    assert named.subject.degrees == {"tp": 8} and named.lengths.osl.mean == 36
    assert any("from the file's name" in note for note in named.notes)
    [wrong] = read_text(record, "in64_out64.json")
    assert wrong.lengths.osl.mean is None and wrong.throughput.output_tokens_per_s is None
