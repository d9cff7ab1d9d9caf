"""Sum checks of profiler reports in the commands; a report that fails one is not used to
calibrate.
"""

import gzip
import json

import pytest

from tests.app.pages import DECODE, QWEN

MODEL = ("--model", "deepseek-ai/DeepSeek-OCR", "--system", "rtx5090")


@pytest.fixture
def doubled(tmp_path):
    """A trace whose kernels take twice the time between their starts."""
    trace = json.loads(gzip.decompress(QWEN.read_bytes()))
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel":
            event["dur"] *= 2
    path = tmp_path / "doubled.json"
    path.write_text(json.dumps(trace))
    return path


def outcomes(document):
    return {one["name"]: one["outcome"] for one in document["checks"]}


def test_import_makes_the_sums_of_reports_and_of_results(answer, printed, doubled):
    [good] = answer("import", QWEN)
    assert outcomes(good)["kernels of a stream <= its span"] == "passed"
    assert "checks: 5 pass, 2 cannot be made" in printed("import", QWEN)
    [bad] = answer("import", doubled)
    [check] = [one for one in bad["checks"] if one["outcome"] == "failed"]
    assert check["left"] > check["right"] > 0 and "different clocks" in check["sentence"]
    assert "check failed: kernels of a stream" in printed("import", doubled)


def test_compare_makes_the_sums_of_the_step_that_is_priced(answer, printed, doubled):
    good = answer("compare", QWEN, "--model", "Qwen/Qwen1.5-0.5B")
    assert set(outcomes(good).values()) == {"passed", "not made"} and good["findings"]
    bad = answer("compare", doubled, "--model", "Qwen/Qwen1.5-0.5B")
    assert "failed" in outcomes(bad).values() and not bad["findings"]
    one = answer("compare", DECODE, *MODEL, "--steps", "decode=1")
    assert outcomes(one)["launches over layers = steps"] == "failed" and not one["findings"]
    words = printed("compare", DECODE, *MODEL, "--steps", "decode=1")
    assert "check failed: launches over layers = steps of decode: 64 against 1 steps" in words


def test_a_report_that_fails_a_sum_teaches_nothing(ridgeline, own_data, doubled):
    refused = ridgeline("calibrate", "report", doubled, "--name", "mine").exception
    assert "so it is not used" in str(refused) and "kernels of a stream" in str(refused)
    assert not list(own_data.rglob("mine*"))


@pytest.mark.parametrize(
    "command", ["compare", "import", "guard", "calibrate runs", "fleet", "study", "chakra"]
)
def test_a_file_that_is_not_there_is_said_before_anything_is_asked(ridgeline, command):
    said = str(ridgeline(*command.split(), "absent.json").exception)
    assert said == "absent.json: no such file"
