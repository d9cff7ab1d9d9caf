"""Request logs beside the prediction: replayed, and used for calibration."""

import pytest

from tests.profilers.serving_results.test_request_logs import FORMS


@pytest.fixture(params=FORMS)
def log(request, tmp_path):
    path = tmp_path / "log"
    path.write_text("\n".join(FORMS[request.param]()) + "\n")
    return path


def test_a_log_is_compared_simulated_as_it_came_and_teaches(log, own_data, answer, printed):
    given = ("--model", "Qwen/Qwen3-8B", "--system", "h100", "--engine", "vllm", "--tp", "1")
    found = answer("compare", log, *given, "--replay")
    [replayed] = found["replays"]
    assert replayed["arrivals"] == "of the file" and replayed["requests"] == 4
    [run] = found["runs"]
    assert run["load"]["rate"] > 0 and run["refused"] == ""
    assert "steps x" in printed("calibrate", "runs", log, *given)
