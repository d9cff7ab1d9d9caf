"""A result that contradicts itself is not used for calibration, and its page names the sum."""

import json

import pytest

from app.benchmarks import calibration
from app.benchmarks.comparison import compare
from app.benchmarks.deployment import deployment
from app.benchmarks.document import sentences
from app.benchmarks.findings import findings
from genz_core.errors import InvalidValue
from tests.app.benchmarks.conftest import HARDWARE, RUN, halved_gaps, measured_as
from tests.profilers.serving_results.conftest import RESULTS

SUM = "E2E = TTFT + (OSL - 1) x TPOT"
#: A client that counts two stream chunks per token.
HALVED = halved_gaps(RUN)


@pytest.fixture
def halved(tmp_path):
    """A real AIPerf result with its TPOT halved and its E2E unchanged."""
    record = json.loads((RESULTS / "aiperf" / "profile_export_aiperf.json").read_text())
    for name in ("inter_token_latency", "inter_chunk_latency"):
        spread = record.get(name, {})
        record |= {name: {k: v / 2 if isinstance(v, float) else v for k, v in spread.items()}}
    path = tmp_path / "halved.json"
    path.write_text(json.dumps(record))
    return path


def test_a_halved_tpot_teaches_nothing_on_the_command_line(own_data, ridgeline, halved):
    model = ("meta-llama/Llama-3.1-8B", "--system", "h100")
    commands = (
        ("calibrate", "runs", halved), ("guard", halved), ("simulate", *model, "--measured", halved)
    )  # fmt: skip
    for command in commands:
        refusal = str(ridgeline(*command).exception)
        assert SUM in refusal and "counts stream chunks" in refusal, command
    assert not (own_data / "recipes.csv").exists()


def test_a_failed_sum_is_named_without_a_gap_or_a_cause(answer, halved):
    compared = answer("compare", halved)
    [run] = compared["runs"]
    [failed] = [one for one in run["checks"] if one["outcome"] == "failed" and SUM in one["name"]]
    assert failed["left"] == pytest.approx(2 * failed["right"], rel=0.02)
    kinds = [one["kind"] for one in compared["findings"]]
    assert "sum" in kinds and not {"gap", "cause"} & set(kinds)
    assert not any("calibration" in one["sentence"] for one in compared["findings"])


def test_one_such_run_is_left_out_of_several(own_data, read):
    runs = [measured_as({**RUN, "max_concurrency": n}, 0.1, 0.011) for n in (4, 8)]
    given = [deployment(read(run), HARDWARE) for run in (*runs, HALVED)]
    learnt = calibration.calibrate(given)
    assert learnt.recipes[0].fit.after.points == 4
    [words] = learnt.left_out
    assert SUM in words and words in learnt.sentence
    with pytest.raises(InvalidValue, match="OSL - 1"):
        calibration.calibrate(given[2:])


def test_faster_than_the_hardware_teaches_nothing(own_data, read):
    fast = deployment(read(measured_as(RUN, 0.09, 0.004)), HARDWARE)
    with pytest.raises(InvalidValue, match="beyond the hardware"):
        calibration.calibrate([fast])
    kinds = {one.kind for one in findings(compare([fast]))}
    assert "sum" in kinds and "cause" not in kinds


def test_the_bandwidth_that_kernels_reach_is_the_limit_of_a_gap(read):
    bound = compare([deployment(read(RUN), HARDWARE)]).points[0].row("tpot_mean_s").predicted.bound
    near = compare([deployment(read(measured_as(RUN, 0.09, bound / 0.95)), HARDWARE)]).points[0]
    [check] = near.failed
    assert check.right == pytest.approx(bound / 0.93 * 1e3)
    assert near.row("tpot_mean_s").place != "below bound"
    assert not compare([deployment(read(RUN), HARDWARE)]).points[0].failed


#: Half of the requests failed, and the file's rates are those of the other half.
HALF_FAILED = {
    **RUN, "completed": 40, "failed": 40, "total_input_tokens": 40960, "total_output_tokens": 40960,
    "request_throughput": 0.435, "output_throughput": 445.0, "total_token_throughput": 890.0,
}  # fmt: skip


def test_failed_requests_are_named_by_each_command(own_data, ridgeline, result):
    file = result(HALF_FAILED)
    named = [word for name, value in HARDWARE.items() for word in (f"--{name}", str(value))]
    compared = ridgeline("compare", file, *named).stdout
    assert "note: 40 of 80 requests failed and count in no latency" in compared
    assert "answered requests = sent requests: 40 against 80 requests" in compared
    assert "note: 40 of 80 requests failed" in ridgeline("import", file).stdout
    guarded = ridgeline("guard", file, "--baseline", result(RUN, "kept.json"))
    assert guarded.exit_code != 0 and "40 of 80 requests failed" in str(guarded.exception)
    assert "40 of 80 requests failed" in str(ridgeline("calibrate", "runs", file, *named).exception)


def test_a_note_of_one_of_several_runs_names_its_run(read):
    users = {**HALF_FAILED, "max_concurrency": 4}
    runs = [deployment(read(run), HARDWARE) for run in (RUN, users)]
    notes = [line for line in sentences(compare(runs)) if "requests failed" in line]
    assert len(notes) == 1 and "concurrency 4" in notes[0]
