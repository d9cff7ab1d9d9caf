"""The jitter of steps and of deliveries is recovered from simulated gaps."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from genz_core.errors import InvalidValue
from profilers.timeline.token_gaps import main, token_gaps


def result(step=0.02, delivery=0.015, answers=200, tokens=150, step_s=0.03, rate=1000.0):
    """Answers whose steps take longer and longer, as with a growing context."""
    generator = np.random.default_rng(0)
    itls = []
    for _ in range(answers):
        times = step_s * np.linspace(1.0, 1.3, tokens)
        late = delivery * step_s * generator.exponential(size=tokens + 1)
        itls.append(times * (1 + step * generator.standard_normal(tokens)) + np.diff(late))
    gaps = [one.tolist() for one in itls]
    return {"ttfts": [0.1] * answers, "itls": gaps, "request_rate": rate}


@pytest.mark.parametrize(
    ("step", "delivery", "within"), [(0.02, 0.0, 0.005), (0.0, 0.02, 0.008), (0.02, 0.015, 0.003)]
)
def test_shares_that_made_the_gaps_are_found(step, delivery, within):
    found = token_gaps(result(step, delivery))
    assert found.step_jitter == pytest.approx(step, abs=within)
    assert found.delivery_jitter == pytest.approx(delivery, abs=within)
    assert found.spread == pytest.approx(np.sqrt(step**2 + 2 * delivery**2), rel=0.12)


def test_gaps_of_the_time_when_prompts_arrive_do_not_count():
    """At 100 requests/s the last of 200 is prefilled at 2.1 s, the first half long before."""
    calm, wild, before = token_gaps(result(rate=100.0)), result(rate=100.0), 15
    generator = np.random.default_rng(1)
    for gaps in wild["itls"][:100]:
        gaps[:before] = (np.array(gaps[:before]) * generator.uniform(1.0, 3.0, before)).tolist()
    found = token_gaps(wild)
    assert 1000 < calm.gaps < 200 * 136 and found.spread == pytest.approx(calm.spread, rel=0.03)


def test_two_tokens_in_one_piece_are_no_jitter():
    pieces = result()
    for gaps in pieces["itls"]:
        gaps[100], gaps[101] = 2 * gaps[100], 1e-5
    assert token_gaps(pieces).spread == pytest.approx(token_gaps(result()).spread, rel=0.05)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"request_rate": float("inf")}, "request_rate = inf"),
        ({"itls": [[0.03] * 20] * 3, "ttfts": [0.1] * 3}, "gaps after the last prompt"),
    ],
)
def test_what_says_nothing_of_jitter_is_refused(change, words):
    with pytest.raises(InvalidValue, match=words):
        token_gaps({**result(), **change})
    with pytest.raises(InvalidValue, match="no itls: run with --save-detailed"):
        token_gaps({"ttfts": [], "request_rate": 1.0})


def test_the_program_reads_packed_and_plain_files(tmp_path, capsys):
    plain, packed = tmp_path / "run.json", tmp_path / "run.json.gz"
    plain.write_text(json.dumps(result()))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert main([str(plain), str(packed)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("step_jitter 0.0") and first.split(" run")[0] == second.split(" run")[0]
    assert main([str(tmp_path / "none.json")]) == 1 and "none.json" in capsys.readouterr().err
    assert main([]) == 2
