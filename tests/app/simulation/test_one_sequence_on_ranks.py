"""One sequence on several attention ranks is one sequence of the experts, too."""

import pytest
import ridgeline

#: Tokens are gathered over the ranks where each has one device, and sent to experts elsewhere.
BY_GATHER = "Qwen/Qwen3-235B-A22B", {"dp": 8, "ep": 8}
BY_EXCHANGE = "openai/gpt-oss-120b", {"tp": 4, "dp": 2, "ep": 8}


@pytest.mark.parametrize(("model", "degrees"), [BY_GATHER, BY_EXCHANGE])
def test_one_user_is_simulated_at_the_price_it_is_served_at(model: str, degrees: dict[str, int]):
    load = {
        "system": "h100", "engine": "vllm", **degrees, "isl": 803, "osl": 53, "length_ratio": 1.0,
        "concurrency": 1,
    }  # fmt: skip
    served = ridgeline.serve(model, **load)
    simulated = ridgeline.simulate(model, **load, requests=20)
    assert float(served.tpot_s) == pytest.approx(simulated.tpot_mean_s, rel=0.01)
