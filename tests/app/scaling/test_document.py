"""The examples of docs/changing-load.md give the figures that stand there."""

from __future__ import annotations

from functools import cache

import pytest
import ridgeline

from tests.figures import Sentence

LOAD = {
    "model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm", "rate": 0.25,
    "isl": 60_000, "osl": 500, "ttft_target_s": 9, "tpot_target_s": 0.025,
}  # fmt: skip


@cache
def following():
    return ridgeline.scale(**LOAD, policy="hpa").to_dict()


def figures():
    here, fixed = following()["following"], following()["fixed"]
    return [
        here["requests"], here["replica_hours"], 100 * here["good_share"], fixed["replicas"],
        fixed["replica_hours"], 100 * fixed["good_share"],
    ]  # fmt: skip


SCALE = Sentence(
    "docs/changing-load.md",
    "{:,.0f} requests in the day. Kubernetes' autoscaler takes {:.1f} replica-hours and keeps "
    "{:.0f} % of requests within the targets; {:.0f} fixed replicas take {:.0f} and keep {:.0f} %.",
    figures,
)


@pytest.mark.slow
def test_the_day_under_an_autoscaler():
    assert list(SCALE.found().groups()) == SCALE.shown()
    starts = following()["following"]["starts"]
    assert f"come and go {starts} times" in " ".join(SCALE.found().string.split())


@pytest.mark.slow
def test_how_many_replicas_are_enough():
    found = ridgeline.availability(**LOAD, requests=4000, share=99.9, lost=1)
    text = " ".join(SCALE.found().string.split())
    assert f"{found.bare} replicas keep 99.9 % of them" in text
    assert f"so that {found.bare + 1} do with one lost" in text
    assert f"Here {found.average} are enough" in text
    assert f"gone {100 * found.gone:.4f} % of the time" in text
