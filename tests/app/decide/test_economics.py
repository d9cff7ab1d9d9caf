"""Economics of a deployment: costs add up, scale with prices, and equal the command's."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
import plotly.io
import pytest
from typer.testing import CliRunner

import hardware_db
from app.answers.columns import COLUMNS
from app.charts import economics as charts
from app.charts import style
from app.cli import cli
from app.decide import comparison, economics, economics_words, frontiers
from app.decide.account import Account, power_caps
from app.decide.axes import UPWARDS
from app.decide.operation import operation
from app.planning.result import plan
from app.question.hours import day_of
from app.question.query import ask
from app.question.question import Question
from app.scenario import served_rows
from app.scenario.scenario import resolve
from app.scenario.served_rows import served
from genz_core.errors import InvalidValue
from hardware_db.site_power import site_power
from tests.rules import for_every

SCENARIO = Question(model="Qwen/Qwen3-32B", engine="vllm", tp=2, concurrency=64)
TERMS = {"capex": 30_000.0, "api_in": 0.2, "api_out": 0.6, "carbon": 300.0}


def account(**changed):
    return Account(resolve(replace(SCENARIO, **changed)))


def of(**changed):
    return economics.document(account(**changed))


def test_output_tokens_cost_the_rent_over_the_output():
    resolved = resolve(SCENARIO)
    rate = float(served(resolved).output_tokens_per_s[0])
    hourly = 2 * resolved.system.price_usd_per_hour
    assert of()["ways"]["rented"]["usd_per_mtok"] == pytest.approx(hourly / 3600 / rate * 1e6)


def test_one_load_has_one_price_everywhere():
    """Economics, comparison, plan and frontier give the same dollars for 64 users."""
    given = {"model": "Qwen/Qwen3-32B", "engine": "vllm", "tp": 2, "concurrency": 64}
    account_ = economics.economics(ask("economics", given))["ways"]["rented"]["usd_per_mtok"]
    compared = comparison.figures(resolve(SCENARIO))["usd_per_mtok"].value
    one = {"devices": 2, "pp": 1, "max_num_seqs": 0, "simulate": False, "pools": "aggregated"}
    planned = plan(ask("plan", given | one)).best["usd_per_mtok"]
    (curve,), _ = frontiers.curves(ask("plan", given | one))
    drawn = curve.columns["usd_per_mtok"][curve.columns["users"] == 64]
    assert account_ == pytest.approx(compared) == pytest.approx(planned) == pytest.approx(drawn[0])
    assert economics.economics(ask("economics", given))["load"] == "64 users"


def test_a_question_without_a_load_is_of_64_users():
    named = economics.economics(ask("economics", {"model": "Qwen/Qwen3-32B", "tp": 2}))
    assert named == economics.economics(
        ask("economics", {"model": "Qwen/Qwen3-32B", "tp": 2, "concurrency": 64})
    )


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_every_cost_scales_with_the_rent(factor: float):
    one, other = (of(price=usd)["ways"]["rented"] for usd in ("2", 2.0 * factor))
    for name, value in one.items():
        if isinstance(value, float):
            assert other[name] == pytest.approx(factor * value)
    assert other["day"]["always on"]["usd"] == pytest.approx(
        factor * one["day"]["always on"]["usd"]
    )


def test_a_day_that_follows_the_load_costs_no_more_and_serves_the_same():
    day = of(**TERMS, peak_rate=100.0)["ways"]["rented"]["day"]
    assert day["follows the load"]["usd"] < day["always on"]["usd"]
    assert day["follows the load"]["utilisation"] > day["always on"]["utilisation"]
    assert max(day["follows the load"]["replicas"]) == day["always on"]["replicas"][0]


def test_a_day_serves_the_stated_rate_with_as_many_replicas_as_it_takes():
    one = of(price="2", rate=1000, concurrency=None)
    each = one["operation"]["requests_per_s"]
    assert one["operation"]["status"] == "overloaded"
    day = of(price="2", rate=1.9 * each, concurrency=None)["ways"]["rented"]["day"]
    assert set(day["always on"]["replicas"]) == {2.0}
    assert day["always on"]["usd"] == pytest.approx(2 * 24 * of()["operation"]["devices"] * 2.0)


@pytest.mark.parametrize("load", [{"rate": 40, "concurrency": None}, {"concurrency": 64}])
def test_replicas_share_the_load_and_come_and_go_one_by_one(load: dict[str, int | None]):
    named = of(price="2", replicas=4, **load)
    running, rented = named["operation"], named["ways"]["rented"]
    assert (running["devices"], running["replicas"]) == (8, 4)
    assert rented["usd_per_replica_hour"] == pytest.approx(4.0)
    assert set(rented["day"]["always on"]["replicas"]) == {4.0}
    assert set(rented["day"]["follows the load"]["replicas"]) >= {2.0, 3.0, 4.0}
    each = running["requests_per_s"] / 4
    assert rented["usd_per_request"] == pytest.approx(4.0 / 3600.0 / each)
    assert f"{each:.3g} requests/s a replica" in next(economics_words.sentences(named))


def test_what_is_owned_costs_the_same_when_it_is_idle():
    assert set(of(**TERMS)["ways"]["owned"]["day"]) == {"always on"}


def test_at_break_even_a_replica_costs_what_the_api_asks():
    found = of(**TERMS)["ways"]["owned"]
    api = found["api"]
    assert api["break_even_requests_per_s"] * 3600 * api["usd_per_request"] == pytest.approx(
        found["usd_per_replica_hour"]
    )
    assert of()["ways"]["rented"]["api"] is None


def test_a_cached_token_costs_less_than_a_new_one_and_more_than_nothing():
    assert 0.0 < operation(account(isl=16384).resolved).cached_ratio < 0.6
    assert operation(account(cached=0.0).resolved).cached_ratio == 0.0


def test_measured_power_stands_in_for_the_model():
    named = of(**TERMS, power=500.0)
    assert named["energy"]["power_w"] == 500.0 and named["energy"]["measured"]
    modelled = of(**TERMS)["energy"]
    assert 0.25 * 700 < modelled["power_w"] < 700
    a_device = modelled["power_w"] + 575.0 + 50.0  # a share of DGX H100, and of its network
    assert modelled["site_joules_per_token"] == pytest.approx(
        1.58 * a_device / modelled["power_w"] * modelled["joules_per_token"]
    )


def test_the_energy_of_other_interfaces_is_the_upper_bound_at_the_design_power():
    """Estimate, serve and plan state it under a head that says so; economics states both."""
    given = {"model": "Qwen/Qwen3-32B", "engine": "vllm", "tp": 2, "concurrency": 64}
    energy = economics.economics(ask("economics", given))["energy"]
    resolved = resolve(SCENARIO)
    row = served_rows.table(resolved, served(resolved), "concurrency", np.array([64.0])).rows()[0]
    assert energy["design_joules_per_token"] == pytest.approx(row["joules_per_token"])
    assert 0.0 < energy["joules_per_token"] < energy["design_joules_per_token"]
    said = economics_words.at_design_power(economics.economics(ask("economics", given)))
    assert said.startswith(f"at most {row['joules_per_token']:.3g} J, at the design power")
    column = COLUMNS["joules_per_token"]
    assert "TDP" in column.head and column.help.startswith("Upper bound")
    assert UPWARDS["joules"].words == column.head


def test_the_share_of_a_step_and_the_share_of_the_devices_time_have_names_of_their_own():
    """A step's share leaves out a request's own prompt, which the devices' time includes."""
    resolved = resolve(SCENARIO)
    step = float(served(resolved).prompt_share[0])
    assert step < operation(resolved).prefill_share
    assert COLUMNS["prompt_share"].head == "Prompts in TPOT"
    assert "of other requests" in COLUMNS["prompt_share"].help


def test_a_power_cap_never_gives_more_and_none_below_the_draw_changes_nothing():
    caps = power_caps(account(), operation(account().resolved))
    output = caps["output_tokens_per_s"]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(output))
    assert all(w <= c for w, c in zip(caps["power_w"], caps["cap_w"], strict=True))
    assert output[-1] == output[-2]


def test_what_is_not_stated_has_no_figure():
    named = of(system="mi300x")
    assert "owned" not in named["ways"] and named["energy"]["carbon_g_per_mtok"] is None
    for day in ((1.0,), ("1",) * 23 + ("noon",), (0.0,) * 24):
        with pytest.raises(InvalidValue, match="the day has"):
            day_of(replace(SCENARIO, day=day))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("look", [style.LIGHT, style.DARK], ids=["light", "dark"])
def test_plotly_reads_the_charts(look):
    named = of(**TERMS)
    ways = named["ways"]
    figures = [
        charts.token_prices(ways, {"input": 0.2, "output": 0.6, "in and out": 0.28}, look),
        charts.against_api(ways, 5.0, 3e-4, 1280.0, look),
        charts.day([1.0] * 24, {"always on": [2.0] * 24, "follows the load": [1.0] * 24}, look),
        charts.power_caps(power_caps(account(), operation(account().resolved)), look),
    ]
    for figure in figures:
        read = json.loads(plotly.io.to_json(figure.document(), validate=False))
        assert json.loads(go.Figure(read).to_json()) == read


def test_the_command_prints_what_python_finds():
    words = ["economics", "Qwen/Qwen3-32B", "--tp", "2", "--capex", "30000", "--api-in", "0.2",
             "--api-out", "0.6", "--carbon", "300"]  # fmt: skip
    ran = CliRunner().invoke(cli, [*words, "--json"])
    assert ran.exit_code == 0, ran.output
    expected = of(**TERMS)
    named = json.loads(ran.stdout)
    assert named["ways"]["owned"]["usd_per_mtok_out"] == pytest.approx(
        expected["ways"]["owned"]["usd_per_mtok_out"]
    )
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0 and "cheaper than the API" in shown.output
    running = expected["operation"]
    most = running["tdp_w"] * running["devices"] / running["requests_per_s"] / running["osl"]
    assert f"at most {most:.3g} J" in shown.output


@pytest.mark.parametrize("given", [{"concurrency": 64, "tp": 1}, {"rate": 1000.0, "tp": 8}])
def test_a_load_that_cannot_be_served_has_the_sentence_of_serve(given):
    words = [f"--{name}={value}" for name, value in given.items()]
    case = ["meta-llama/Llama-3.1-70B", "--system", "h100", *words]
    shown = CliRunner().invoke(cli, ["economics", *case]).output
    (warning,) = (line for line in shown.splitlines() if line.startswith("warning: "))
    (served_row,) = json.loads(CliRunner().invoke(cli, ["serve", *case, "--json"]).stdout)
    assert served_row["message"].startswith(warning.removeprefix("warning: "))
    assert len(warning.split()) > 8 and "_" not in warning


def test_host_network_and_site_add_up_and_can_be_stated():
    terms = {**TERMS, "host_power": 100.0, "network_power": 20.0, "pue": 1.2, "power": 500.0}
    energy = of(**terms)["energy"]
    assert energy["site_w"] == pytest.approx(1.2 * 620.0)
    carbon = energy["site_joules_per_token"] * 1e6 / 3.6e6 * 300.0
    assert energy["carbon_g_per_mtok"] == pytest.approx(carbon)
    named = of(**{**terms, "host_power": 0.0, "network_power": 0.0, "pue": 1.0})
    assert named["energy"]["site_joules_per_token"] == pytest.approx(
        named["energy"]["joules_per_token"]
    )
    assert named["assumed"]["host_w"] == "stated by the user"
    with pytest.raises(InvalidValue, match="host_power = -1"):
        of(host_power=-1.0)
    with pytest.raises(InvalidValue, match=r"pue = 0\.9"):
        of(pue=0.9)


def test_what_is_owned_pays_for_the_power_of_its_host():
    def hourly(host):
        stated = {**TERMS, "power": 700.0, "pue": 1.0, "host_power": host, "network_power": 0.0}
        return of(**stated)["ways"]["owned"]["usd_per_device_hour"]

    assert hourly(1000.0) - hourly(0.0) == pytest.approx(SCENARIO.electricity)


@for_every(hardware_db.names())
def test_every_system_has_a_host_and_network_share_with_its_source(slug):
    figures = site_power(hardware_db.load(slug))
    for figure in (figures.host_w, figures.network_w, figures.pue):
        assert figure.value >= 0.0 and figure.source and figure.note
        assert figure.kind in ("datasheet", "derived", "measured", "assumed")
    assert figures.pue.value >= 1.0


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_prompts_cost_something_for_one_user_alone_and_more_for_many(engine: str):
    """A single user waits only for the own prompt, whose prefill still costs: the TTFT of each
    request.
    """
    shares = []
    for users in (1, 2, 4, 16, 64):
        asked = resolve(Question(engine=engine, concurrency=users))
        shares.append(operation(asked).prefill_share)
        if users == 1:
            alone = served(asked)
            own = float(alone.prefill_s[0] / alone.e2e_s[0])
            assert shares[0] == pytest.approx(own, rel=0.05)
    assert shares[0] > 0.0 and all(a <= b * 1.02 for a, b in pairwise(shares))
    alone = Account(resolve(Question(engine=engine, concurrency=1)))
    found = economics.document(alone)["ways"]["rented"]
    # the host's launches of a short prompt take as long with fewer tokens
    assert found["usd_per_mtok_in"] > found["usd_per_mtok_cached"] >= 0.0
