"""Cache tiers and sessions as they are asked: what is drawn, found, saved and paid."""

from __future__ import annotations

import json

import numpy as np
import pytest
import ridgeline
from typer.testing import CliRunner

from app.cli import cli
from app.question.load import SESSIONS
from app.question.query import ask
from app.simulation import offered_load, recorded_sessions
from genz_core.errors import InvalidValue
from hardware_db.tables import table

LLAMA = "meta-llama/Llama-3.1-8B"
#: Sessions whose histories outgrow the device: one turn a second and more.
AGENTS = {
    "model": LLAMA, "system": "h100", "rate": 2.4, "requests": 320, "isl": 6000, "turn_isl": 1000,
    "osl": 64, "turns": 4, "think_s": 20.0, "think_spread": 1.0,
}  # fmt: skip
TIERS = {"host_cache_gib": 60.0, "disk_cache_gib": 400.0}


# ------------------------------------------------------------------------------- sessions


def drawn(**load):
    return offered_load.drawn(ask("simulate", {"model": LLAMA, **load}).question).requests


def test_later_turns_add_their_own_tokens():
    found = drawn(rate=1, requests=400, isl=5000, turn_isl=500, osl=100, turns=4, length_ratio=1)
    prompts = found.input_tokens.reshape(-1, 4)
    assert prompts[:, 0].tolist() == [5000] * 100
    assert np.diff(prompts, axis=1).tolist() == [[600] * 3] * 100


def test_pauses_have_the_mean_and_the_spread_that_were_asked():
    found = drawn(rate=1, requests=40_000, turns=4, think_s=8.0, think_spread=0.5)
    pauses = found.arrival_s[found.after >= 0]
    assert pauses.mean() == pytest.approx(8.0, rel=0.02)
    assert pauses.std() == pytest.approx(4.0, rel=0.05)


def test_equal_pauses_and_turns_are_drawn_as_before():
    equal = {"think_s": 4.0, "think_spread": 0.0, "length_ratio": 1}
    found = drawn(concurrency=2, isl=160, osl=32, turns=3, **equal)
    assert set(found.arrival_s[found.after >= 0]) == {4.0}
    assert found.input_tokens[:3].tolist() == [160, 352, 544]


@pytest.mark.parametrize("name", SESSIONS)
def test_recorded_sessions_are_drawn_whole(name: str):
    found, known = drawn(rate=1, requests=3000, sessions=name), recorded_sessions.read(name)
    turns, pause_s = known.means
    first = found.after < 0
    assert len(found) == 3000 and 3000 / first.sum() == pytest.approx(turns, rel=0.1)
    assert found.arrival_s[~first].mean() == pytest.approx(pause_s, rel=0.2)
    later = np.flatnonzero(~first)
    assert np.all(found.after[later] == later - 1)
    grown = found.input_tokens[later] - found.input_tokens[later - 1]
    assert np.all(grown > found.output_tokens[later - 1])
    assert np.all(found.input_tokens > known.shared_tokens)


# ------------------------------------------------------------------------------- what they find


@pytest.fixture(scope="module")
def simulated():
    return ridgeline.simulate(**AGENTS, **TIERS, worth=True, price=3.0)


def test_tiers_find_what_the_device_has_lost(simulated):
    named = simulated.to_dict()
    parts = [named[f"{name}_hit_share"] for name in ("device", "host", "disk")]
    assert named["cached_share"] == pytest.approx(sum(parts)) and min(parts[0], sum(parts[1:])) > 0
    assert named["loading_mean_s"] > 0
    host, disk = named["cache_tiers"]
    assert (host["read_bytes_per_s"], disk["read_bytes_per_s"]) == (63e9, 6.5e9)
    assert host["size_gib"] == 60 and host["written_bytes_per_s"] > 0


def test_a_tier_is_worth_the_time_that_it_frees_less_its_rent(simulated):
    document = simulated.to_dict()["worth"]
    cases = {row["case"]: row for row in document["tiers"]}
    assert list(cases) == ["all tiers", "without host", "without disk", "without any"]
    plain = ridgeline.simulate(**AGENTS).to_dict()
    assert cases["without any"]["cached_share"] == plain["cached_share"]
    assert cases["without any"]["ttft_mean_s"] == plain["ttft_mean_s"]
    assert cases["without any"]["tier_usd_per_hour"] == 0
    assert cases["all tiers"]["cached_share"] >= cases["without any"]["cached_share"]
    for row in document["worth"]:
        less = cases[f"without {row['tier']}"]
        whole = cases["all tiers"]
        saved_s = less["device_time_s"] - whole["device_time_s"]
        assert row["ttft_mean_saved_s"] == less["ttft_mean_s"] - whole["ttft_mean_s"]
        freed = saved_s * simulated.requests_per_s * 3.0
        assert row["freed_usd_per_hour"] == pytest.approx(freed)
        assert row["net_usd_per_hour"] == pytest.approx(freed - row["tier_usd_per_hour"])
    rent = {r["tier"]: float(r["value"]) for r in table("technology", "cache_tiers")
            if r["figure"] == "usd_per_gib_hour"}  # fmt: skip
    assert document["worth"][0]["tier_usd_per_hour"] == pytest.approx(60 * rent["host"])
    assert document["routers"] == []


def test_routers_are_compared_where_there_are_several_ranks():
    found = ridgeline.simulate(
        **{**AGENTS, "requests": 120}, host_cache_gib=20, replicas=2, router="prefix", worth=True
    )
    rows = {row["router"]: row for row in found.to_dict()["worth"]["routers"]}
    assert list(rows) == ["prefix", "least_loaded", "round_robin"]
    assert rows["prefix"]["cached_share"] > rows["round_robin"]["cached_share"]


def test_the_closed_form_finds_what_a_simulation_does():
    row = ridgeline.serve(**{k: v for k, v in AGENTS.items() if k != "requests"}, **TIERS).rows[0]
    named = ridgeline.simulate(**{**AGENTS, "requests": 900}, **TIERS).to_dict()
    for name in ("device", "host", "disk"):
        assert row[f"{name}_hit_share"] == pytest.approx(named[f"{name}_hit_share"], abs=0.08)
    assert row["ttft_s"] == pytest.approx(named["ttft_mean_s"], rel=0.25)


@pytest.mark.parametrize(
    ("users", "limits", "share"),
    [
        (300, {}, 0.0),
        (300, {"host_cache_gib": 100}, 0.54),
        (100, {"max_num_seqs": 64}, 0.54),
    ],
)
def test_sessions_that_wait_for_a_place_lose_their_earlier_turns(users, limits, share):
    """198 sessions fill the memory: the turns of 300 leave it before the next one has a place, if
    no tier below keeps them.  Those of 100 stay there, however few of them run."""
    load = {"system": "h100", "engine": "vllm", "isl": 1024, "osl": 200, "turns": 3, **limits}
    closed = ridgeline.serve(LLAMA, concurrency=users, **load)
    named = ridgeline.simulate(LLAMA, concurrency=users, requests=4 * users, **load)
    assert named.cached_share == pytest.approx(share, abs=0.01)
    assert closed.output_tokens_per_s == pytest.approx(named.output_tokens_per_s, rel=0.05)
    assert closed.ttft_s == pytest.approx(named.ttft_mean_s, rel=0.05)


def test_prefixes_on_a_host_of_any_size_outlast_the_wait_for_a_place():
    load = {"system": "h100", "engine": "vllm", "isl": 1024, "osl": 200, "turns": 3}
    on_device, on_host = (
        ridgeline.serve(LLAMA, concurrency=[180, 300], prefix_tier=tier, **load).output_tokens_per_s
        for tier in ("device", "host")
    )
    assert on_device[1] < 0.8 * on_device[0]
    assert on_host[1] > 0.99 * on_host[0]


@pytest.mark.parametrize(
    "changed",
    [
        *({"engine": engine, "think_s": s} for engine in ("vllm", "trtllm") for s in (2, 10, 60)),
        {"engine": "vllm", "think_s": 10, "prefill_workers": 1},
    ],
    ids=str,
)
def test_users_who_pause_are_the_same_users_in_closed_form_and_in_a_simulation(changed):
    """Within the limits of docs/closed-form.md.  Pauses vary: users with equal pauses would fall in
    step."""
    load = {"system": "h100", "isl": 1024, "osl": 200, "turns": 3, "concurrency": 100, **changed}
    closed = ridgeline.serve(LLAMA, **load)
    named = ridgeline.simulate(LLAMA, **load, requests=1500)
    assert closed.ttft_s == pytest.approx(named.ttft_mean_s, rel=0.15)
    assert closed.tpot_s == pytest.approx(named.tpot_mean_s, rel=0.10)
    assert closed.output_tokens_per_s == pytest.approx(named.output_tokens_per_s, rel=0.05)


def test_users_who_do_not_pause_wait_for_one_of_the_places_that_are_all_taken():
    load = {"system": "h100", "engine": "vllm", "turns": 3, "think_s": 2.0, "max_num_seqs": 32}
    found = ridgeline.serve(LLAMA, concurrency=100, **load)
    assert found.running == 32
    words = "about 32 of 88 users who do not pause run at once (max_num_seqs is 32)"
    assert words in found.message


def test_a_simulation_says_that_users_with_equal_pauses_fall_in_step():
    load = {"system": "h100", "concurrency": 2, "requests": 12, "turns": 3, "think_s": 1.0}
    alike, apart = (ridgeline.simulate(LLAMA, **load, think_spread=s) for s in (0.0, 0.5))
    assert "fall in step" in alike.message
    assert "fall in step" not in apart.message


def test_sessions_that_pause_lose_their_earlier_turns_to_others_on_a_full_device():
    """400 sessions do not fit in memory, though far fewer run at once."""
    load = {"system": "h100", "engine": "vllm", "isl": 1024, "osl": 200, "turns": 3}
    load |= {"think_s": 30.0, "think_spread": 0.5}
    fewer, more = (ridgeline.serve(LLAMA, concurrency=n, **load) for n in (150, 400))
    kept = ridgeline.serve(LLAMA, concurrency=400, **load, host_cache_gib=400)
    named = ridgeline.simulate(LLAMA, concurrency=400, requests=2400, **load)
    assert fewer.running < more.running < 400
    assert kept.tpot_s < more.tpot_s
    assert more.output_tokens_per_s == pytest.approx(named.output_tokens_per_s, rel=0.05)
    assert more.tpot_s == pytest.approx(named.tpot_mean_s, rel=0.15)


def test_a_larger_tier_finds_no_less_in_closed_form():
    load = {k: v for k, v in AGENTS.items() if k not in ("requests", "rate")}
    shares = [
        ridgeline.serve(**load, rate=2.0, host_cache_gib=size).rows[0]["host_hit_share"]
        for size in (1, 20, 80, 400)
    ]
    assert shares == sorted(shares) and shares[-1] > shares[0]


def test_serve_without_tiers_has_no_columns_of_them():
    row = ridgeline.serve(LLAMA, system="h100", concurrency=4, turns=3).rows[0]
    assert not [name for name in row if "hit_share" in name]


# ------------------------------------------------------------------------------- interfaces


def test_the_command_line_says_what_a_tier_is_worth():
    line = [
        "simulate", LLAMA, "--system", "h100", "--rate", "1", "--requests", "60", "--turns", "3",
        "--host-cache-gib", "40", "--worth", "--json",
    ]  # fmt: skip
    found = json.loads(CliRunner().invoke(cli, line).stdout)
    assert [row["tier"] for row in found["worth"]["worth"]] == ["host"]
    text = CliRunner().invoke(cli, line[:-1]).stdout
    assert "without host" in text and "net_usd_per_hour" in text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"host_cache_gib": 10}, "give turns, sessions or a trace"),
        ({"host_cache_gib": 10, "turns": 2, "prefix_caching": False}, "leave out one"),
        ({"disk_cache_gb_per_s": 5, "turns": 2}, "give disk_cache_gib"),
        ({"host_cache_price": 1.0}, "give host_cache_gib"),
        ({"cache_writes": "back", "turns": 2}, "give host_cache_gib"),
        ({"sessions": "coding_agent", "turns": 2}, "leave out turns"),
        ({"sessions": "chess"}, "choose conversation, coding_agent"),
        ({"think_spread": 0.5, "turns": 2}, "give think_s"),
        ({"turn_isl": 100}, "give turns above 1"),
        ({"price": 2.0}, "price does not apply to a simulation without cache tiers"),
        ({"worth": True}, "give host_cache_gib"),
        ({"host_cache_gib": 10, "turns": 2, "scheduler": "static"}, "static batch"),
    ],
)
def test_what_means_nothing_is_refused(given, words):
    with pytest.raises(InvalidValue, match=words):
        ridgeline.simulate(LLAMA, system="h100", concurrency=2, **given)


def test_other_verbs_refuse_tiers_by_name():
    with pytest.raises(InvalidValue, match="remote_cache_gib is not modelled by plan"):
        ask("plan", {"model": LLAMA, "rate": 1, "turns": 3, "remote_cache_gib": 10})
    with pytest.raises(InvalidValue, match="not modelled in closed form"):
        ridgeline.serve(LLAMA, system="h100", concurrency=4, turns=3, host_cache_gib=10,
                        prefill_workers=1)  # fmt: skip
