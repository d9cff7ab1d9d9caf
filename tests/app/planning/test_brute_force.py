"""The search compared with brute force: every deployment enumerated and ranked one by one.

Deployments are enumerated by plain loops, priced by `genz_core.serve` one shape at a time, and
ranked by a loop over rows, without any of the planner's code. The slow case has some 20,000 of
them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import hardware_db
import model_registry
from app.planning.search import search
from genz_core.serving import Traffic, serve
from genz_core.types import Parallelism
from tests.app.planning.asking import asked

MODEL = "Qwen/Qwen3-30B-A3B"
SYSTEMS = ("h100", "h200", "b200")
ISL, OSL = 1024, 256


def shapes(model, system, most):
    """(tp, pp, dp, ep) that vLLM accepts, of at most `most` devices."""
    nearest = system.links[0].domain or most
    for tp in (1, 2, 4, 8, 16, 32, 64):
        for pp in (1, 2, 4):
            for dp in (1, 2, 4, 8, 16, 32, 64):
                for ep in sorted({1, tp * dp}):
                    split = Parallelism(tp, pp, dp, ep)
                    if tp <= nearest and tp * pp * dp <= most and model.invalid(split) is None:
                        yield tp, pp, dp, ep


def rows_of(system_name, most, users_in_all, rate):
    """Every deployment on a system as a dictionary; those out of memory have no figures."""
    model, system = model_registry.load(MODEL), hardware_db.load(system_name)
    engine = hardware_db.load_engine("vllm")
    for tp, pp, dp, ep in shapes(model, system, most):
        each = tp * pp * dp
        made = []
        for replicas in range(1, most // each + 1):
            if users_in_all and replicas > users_in_all:
                continue
            made.append((replicas, 0))
            limit = 4
            while limit <= users_in_all:
                if math.ceil(users_in_all / replicas) / dp > limit:
                    made.append((replicas, limit))
                limit *= 2
        replicas, limits = (np.array(column, dtype=float) for column in zip(*made, strict=True))
        one = np.ones(len(made))
        split = Parallelism(tp * one, pp * one, dp * one, ep * one)

        def served(load, limits=limits, split=split):
            traffic = Traffic(ISL, OSL, max_num_seqs=limits, **load)
            return serve(model, system, traffic, split, engine, on_error="status")

        if users_in_all:
            more = np.ceil(users_in_all / replicas)
            full = served({"concurrency": more})
            less = served({"concurrency": np.maximum(more - 1, 1)})
        else:
            full = less = served({"rate_per_s": rate / replicas})
        for at in range(len(made)):
            many = int(replicas[at])
            others = -users_in_all % many  # of one user less than the fullest
            parts = [(many - others, full), (others, less)]
            weights = [count * float(part.output_tokens_per_s[at]) for count, part in parts]
            tokens = sum(weights)
            hourly = system.price_usd_per_hour * each * many
            yield {
                "what": (system.slug, tp, pp, dp, ep, many),
                "limit": int(limits[at]) or engine.max_sequences,
                "ok": full.status[at] == "ok",
                "devices": each * many,
                "ttft_s": float(np.average([full.ttft_s[at], less.ttft_s[at]], weights=weights)),
                "tpot_s": float(np.average([full.tpot_s[at], less.tpot_s[at]], weights=weights)),
                "usd_per_mtok": hourly / 3600.0 / tokens * 1e6 if tokens > 0 else math.nan,
            }


@pytest.mark.parametrize(
    ("load", "systems", "most", "least", "ttft_s", "tpot_s"),
    [
        pytest.param({"concurrency": 1500}, SYSTEMS, 96, 15_000, 2.0, 0.03, id="users",
                     marks=pytest.mark.slow),
        pytest.param({"concurrency": 300}, SYSTEMS[1:], 8, 150, 2.0, 0.02, id="few users"),
        pytest.param({"rate": 40.0}, SYSTEMS, 96, 2_000, 0.5, 0.02, id="rate",
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_the_search_finds_what_looking_at_every_deployment_finds(
    load, systems, most, least, ttft_s, tpot_s
):
    targets = f"ttft < {ttft_s}s, tpot < {tpot_s}s"
    found = search(asked(
        MODEL, system=systems, engine="vllm", devices=(1, most), pools="aggregated", target=targets,
        isl=ISL, osl=OSL, length_ratio=1.0, **load,
    ))  # fmt: skip
    amounts = (load.get("concurrency", 0), load.get("rate", 0.0))
    written_out = [row for system in systems for row in rows_of(system, most, *amounts)]
    assert len(written_out) >= least
    good = [row for row in written_out
            if row["ok"] and row["ttft_s"] < ttft_s and row["tpot_s"] < tpot_s]  # fmt: skip
    best: dict[tuple, dict] = {}
    for row in good:  # the cheapest limit represents its deployment
        key = (round(row["usd_per_mtok"], 9), row["tpot_s"])
        held = best.get(row["what"])
        if held is None or key < (round(held["usd_per_mtok"], 9), held["tpot_s"]):
            best[row["what"]] = row
    ranked = sorted(best.values(), key=lambda row: (row["usd_per_mtok"], row["devices"]))

    def named(at):
        row, slug = found.candidates.row(int(at)), found.candidates.of(int(at)).system.slug
        return (slug, *(int(row[name]) for name in ("tp", "pp", "dp", "ep", "replicas")))

    by_cost = replace(found.ranking, expected=False)
    chosen = by_cost.order(found.candidates, found.probability, found.feasible)
    chosen = by_cost.best_each(found.candidates, chosen)
    order = [named(at) for at in chosen]
    assert ranked and set(order) == set(best) and len(order) == len(best)
    costs = [float(found.candidates.columns["usd_per_mtok"][at]) for at in chosen]
    assert costs == pytest.approx([row["usd_per_mtok"] for row in ranked], rel=1e-6)
    assert {named(at) for at in found.order} == set(best)
    assert best[order[0]]["usd_per_mtok"] == pytest.approx(ranked[0]["usd_per_mtok"], rel=1e-9)
    assert int(found.feasible.sum()) == len(good)
