"""One sequence on several attention ranks is one sequence of the experts, too."""

import pytest
import ridgeline


def test_one_user_is_simulated_at_the_price_it_is_served_at():
    load = {
        "system": "h100", "engine": "vllm", "dp": 8, "ep": 8, "isl": 803, "osl": 53,
        "length_ratio": 1.0, "concurrency": 1,
    }  # fmt: skip
    served = ridgeline.serve("Qwen/Qwen3-235B-A22B", **load)
    simulated = ridgeline.simulate("Qwen/Qwen3-235B-A22B", **load, requests=20)
    assert float(served.tpot_s) == pytest.approx(simulated.tpot_mean_s, rel=0.03)
