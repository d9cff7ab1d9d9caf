"""Utilisation, power and cost follow the work: laws over the rate, and counts from outside."""

from __future__ import annotations

from itertools import pairwise

import pytest

from app.decide import economics, economics_words
from app.decide.account import Account, power_caps
from app.decide.operation import Operation, operation
from app.question.question import Question
from app.scenario.scenario import Resolved, resolve
from app.wording import quantities

MODEL = "meta-llama/Llama-3.1-8B"
#: Parameters of the model in products of a decode step: those of its card less its embedding of
#: 128,256 x 4,096.
PRODUCTS = 8.03e9 - 128_256 * 4_096
#: Peak of an H100 SXM at its boost clock: 132 multiprocessors x 4,096 dense 16-bit FLOPs a cycle x
#: 1.98 GHz; and its memory bandwidth.
PEAK, BANDWIDTH = 132 * 4096 * 1.98e9, 3.35e12
RATES = (0.01, 0.1, 0.3, 1.0, 3.0, 8.0, 16.0)


def asked(**given: object) -> Resolved:
    return resolve(Question(**{"model": MODEL, "system": "h100", "engine": "vllm", **given}))  # type: ignore[arg-type]


def of(**given: object) -> Operation:
    return operation(asked(**given))


def watts(**given: object) -> float:
    account = Account(asked(**given))
    return account.power_w(operation(account.resolved))


def test_arithmetic_is_two_flops_a_parameter_and_token_over_the_peak():
    """Attention adds a few per cent; a prompt's last token alone crosses the vocabulary."""
    found = of(concurrency=64, isl=1024, osl=256, length_ratio=1.0)
    head = 128_256 * 4_096
    tokens = (PRODUCTS - head) * 1024 + PRODUCTS * 255
    expected = found.requests_per_s * 2.0 * tokens / PEAK
    assert expected < found.compute < 1.08 * expected


def test_memory_reads_the_weights_once_a_step():
    """A rate at which requests are alone: a step per token, each of which reads all weights."""
    found = of(rate=0.01, isl=64, osl=256, length_ratio=1.0)
    weights = 0.01 * 256 * 2.0 * PRODUCTS / BANDWIDTH
    assert found.memory == pytest.approx(weights, rel=0.02)


def test_a_deployment_with_little_to_do_draws_little_more_than_idle_power():
    idle = 0.25 * 700.0
    assert idle < watts(rate=0.01) < 1.03 * idle
    assert watts(rate=0.001) == pytest.approx(idle, rel=0.003)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"isl": 8192, "osl": 32},
        {"osl": 1},
        {"pp": 2},
        {"isl": 8192, "prefix_hits": 0.9, "rates": RATES[:-2]},
        {"model": "Qwen/Qwen3-32B", "tp": 2, "prefill_workers": 2, "prefill_tp": 2},
    ],
    ids=str,
)
def test_power_lies_between_idle_and_design_and_grows_with_the_rate(given: dict[str, object]):
    """Of dense models: with experts, steps that become slower may read less."""
    rates = given.get("rates", RATES if given.get("isl") != 8192 else RATES[:-3])
    named = {name: value for name, value in given.items() if name != "rates"}
    found = [watts(**named, rate=rate) for rate in rates]
    assert all(0.25 * 700.0 < one < 700.0 for one in found)
    assert all(less < more for less, more in pairwise(found))


def test_twice_the_replicas_at_twice_the_rate_work_as_much_each():
    one, two = of(rate=4.0), of(rate=8.0, replicas=2)
    for name in ("compute", "memory", "links", "prefill_share"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), rel=1e-6)


def test_few_experts_are_read_by_few_tokens():
    """The step of a lone token reads the experts of one token, not those of a prompt."""
    given = {"model": "Qwen/Qwen3-30B-A3B", "tp": 2, "isl": 1024, "osl": 256, "length_ratio": 1.0}
    found = of(**given, rate=0.01)
    active = 3.3e9 * 2.0  # bytes of the card's active parameters, embedding included
    steps = 0.01 * (255 * active + 61e9) / 2 / BANDWIDTH
    assert 0.75 * steps < found.memory < 1.1 * steps


def priced(**given: object) -> dict:
    return economics.document(Account(asked(price="2", **given)))


@pytest.mark.parametrize(
    "load",
    [
        {"rate": 0.01}, {"rate": 8.0}, {"concurrency": 1}, {"concurrency": 64},
        {"rate": 2.0, "prefix_hits": 0.9}, {"concurrency": 16, "turns": 4},
        {"rate": 4.0, "replicas": 2, "samples": 2},
    ],
    ids=str,
)  # fmt: skip
def test_the_cost_of_all_tokens_is_the_cost_of_the_hour(load: dict[str, object]):
    named = priced(**load)
    running, way = named["operation"], named["ways"]["rented"]
    dollars = (
        (running["isl"] - running["cached"]) * way["usd_per_mtok_in"]
        + running["cached"] * way["usd_per_mtok_cached"]
        + running["osl"] * way["usd_per_mtok_out"]
    )
    hourly = dollars / 1e6 * running["requests_per_s"] * 3600.0
    assert hourly == pytest.approx(2.0 * running["devices"])


def test_prompts_pay_their_part_of_the_idle_time():
    """The machine is paid whether it works or not; a lone request's own times split the cost."""
    alone = of(concurrency=1)
    rare = of(rate=0.001)
    assert rare.prefill_share == pytest.approx(alone.prefill_share, rel=0.02)
    dear, cheap = (priced(rate=rate)["ways"]["rented"]["usd_per_mtok_in"] for rate in (0.01, 1.0))
    assert 30.0 < dear / cheap < 100.0


def test_fresh_and_cached_tokens_have_prices_of_their_own():
    """Of 90 % hits a tenth of the prompt is read, and bears nearly all of the prompts' cost."""
    way = priced(rate=2.0, prefix_hits=0.9)["ways"]["rented"]
    assert way["usd_per_mtok_cached"] < 0.05 * way["usd_per_mtok_in"]
    said = list(economics_words.sentences(priced(rate=2.0, prefix_hits=0.9)))
    assert "input that is not cached $" in said[1]
    assert "not cached" not in list(economics_words.sentences(priced(rate=2.0)))[1]


@pytest.mark.parametrize("load", [{"rate": 1000.0}, {"model": "Qwen/Qwen3-235B-A22B", "rate": 1.0}])
def test_what_cannot_run_has_a_sentence_and_no_figure(load: dict[str, object]):
    named = priced(**load)
    assert named["energy"] is None
    for way in named["ways"].values():
        assert set(way) == {"usd_per_device_hour", "usd_per_replica_hour", "day"}
    first, warning, *_ = economics_words.sentences(named)
    assert first.endswith("no cost of a token and no power, as this load cannot be served")
    assert warning == f"warning: {named['operation']['message']}" and len(warning) > 40
    assert "$" not in first and not {"nan", "W"} & set(first.split())


def test_an_overloaded_deployment_has_the_rent_of_a_day_with_enough_of_it():
    named = priced(rate=1000.0)
    said = list(economics_words.sentences(named))
    day = named["ways"]["rented"]["day"]["always on"]
    assert said[2] == "rented, with as many of this deployment as the load takes:"
    assert f"{quantities.dollars(day['usd'])} a day" in said[3] and min(day["replicas"]) > 40
    assert priced(model="Qwen/Qwen3-235B-A22B", rate=1.0)["ways"] == {}


def test_caps_under_which_a_rate_is_not_served_are_left_out():
    account = Account(asked(rate=17.5, isl=2048, osl=64))
    free = operation(account.resolved)
    assert free.runs
    caps = power_caps(account, free)
    assert 0 < len(caps["cap_w"]) < 13
    assert caps["output_tokens_per_s"] == pytest.approx([17.5 * free.osl] * len(caps["cap_w"]))
