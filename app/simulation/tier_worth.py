"""The value of cache tiers and routers: the same requests with fewer tiers, and with other routers.

The value of a tier is the device time that its hits save, at the rent of the devices, minus the
tier's own rent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.question.parameters import PARAMETERS
from app.question.question import Question
from app.question.validity import tiers_of
from app.scenario import cache_tiers, pools
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup, resolve_setup
from app.simulation import rows
from app.simulation.run import Run, run
from genz_core.common.progress import Cancel, Progress, never, part, silent
from genz_core.errors import InvalidValue

_LATENCIES = ("ttft_mean_s", "ttft_p50_s", "ttft_p99_s", "tpot_mean_s", "loading_mean_s")


@dataclass(frozen=True, slots=True)
class Worth:
    """Runs of the same requests.

    cases: by name, with all tiers, without each of them, without any; the first is the question as
    asked.  routers: the run with all tiers under every router, if there are several ranks.
    """

    cases: Mapping[str, Run]
    routers: Mapping[str, Run]

    @property
    def whole(self) -> Run:
        """The run of the question as asked, with all tiers."""
        return next(iter(self.cases.values()))

    def document(self) -> dict[str, Any]:
        """Figures of every run, and the contribution of each tier, as `--json` prints them."""
        return {"tiers": self.case_rows, "worth": self.worth_rows, "routers": self.router_rows}

    @property
    def case_rows(self) -> list[dict[str, Any]]:
        """Hits by tier, TTFT and rent, one row per case."""
        return [{"case": name, **figures(one)} for name, one in self.cases.items()]

    @property
    def router_rows(self) -> list[dict[str, Any]]:
        """The same figures, one row per router."""
        return [{"router": name, **figures(one)} for name, one in self.routers.items()]

    @property
    def worth_rows(self) -> list[dict[str, Any]]:
        """The contribution of each tier given the others, one row per tier."""
        rents = cache_tiers.rents(self.whole.question)
        return [
            {"tier": name, **_added(self.whole, self.cases[_without(name)], rents[name])}
            for name in rents
        ]


def figures(run: Run) -> dict[str, Any]:
    """Hits by tier, latencies and rent of a run."""
    named = rows.figures(run)
    shares = {name: value for name, value in named.items() if name.endswith("_hit_share")}
    latencies = {name: named[name] for name in _LATENCIES if name in named}
    return {
        "cached_share": named["cached_share"],
        **shares,
        **latencies,
        "output_tokens_per_s": named["output_tokens_per_s"],
        "device_time_s": device_s_per_request(run),
        "usd_per_hour": _rent(run),
        "tier_usd_per_hour": sum(cache_tiers.rents(run.question).values()),
    }


def device_s_per_request(run: Run) -> float:
    """Busy device time per request [s], over all requests of the run."""
    simulation = run.simulation
    ended = simulation.ended
    if not ended.any():
        return float("nan")
    end_s = float(np.max((simulation.arrival_s + simulation.e2e_s)[ended]))
    devices = [number for number in pools.devices_of(run.question) if number]
    return float(np.dot(simulation.busy, devices)) * end_s / int(ended.sum())


def _added(whole: Run, without: Run, rent: float) -> dict[str, Any]:
    """The contribution of a tier: hits, seconds of TTFT, and dollars per hour."""
    with_, less = rows.figures(whole), rows.figures(without)
    saved_s = device_s_per_request(without) - device_s_per_request(whole)
    devices_rent = _rent(whole)
    freed = None
    if devices_rent is not None:
        device_rent = devices_rent / rows.devices(whole)
        freed = saved_s * with_["requests_per_s"] * device_rent
    return {
        "cached_share": with_["cached_share"] - less["cached_share"],
        "ttft_mean_saved_s": less["ttft_mean_s"] - with_["ttft_mean_s"],
        "ttft_p99_saved_s": less["ttft_p99_s"] - with_["ttft_p99_s"],
        "device_time_s": saved_s,
        "tier_usd_per_hour": rent,
        "freed_usd_per_hour": freed,
        "net_usd_per_hour": None if freed is None else freed - rent,
    }


def _rent(run: Run) -> float | None:
    """Rent of all devices [$/h]; None if the rent of one is unknown."""
    own = run.resolved.system.price_usd_per_hour
    reader = run.prefill.resolved.system.price_usd_per_hour if run.prefill else own
    if own is None or reader is None:
        return None
    readers, others = pools.devices_of(run.question)
    return own * others + reader * readers


def _without(tier: str) -> str:
    return f"without {tier}"


def worth(
    resolved: Resolved,
    objects: Mapping[str, Any],
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> Worth:
    """Simulate the requests of a question, then again with fewer tiers and with other routers.

    Raises:
        InvalidValue: it has no tiers.
        RidgelineError: as `app.simulation.run.run`.
        Cancelled: `cancelled` returned True.
    """
    question = resolved.scenario
    names = tiers_of(question)
    if not names:
        raise InvalidValue("worth needs a cache tier: give host_cache_gib")
    whole = run(resolved, objects, part(progress, 0.0, 0.3), cancelled)
    fewer: dict[str, tuple[str, ...]] = {_without(name): (name,) for name in names}
    if len(names) > 1:
        fewer["without any"] = names
    asked = {name: replace(question, **_left_out(left, names)) for name, left in fewer.items()}
    routed = {}
    if question.replicas * question.dp > 1:
        others = (name for name in PARAMETERS["router"].choices if name != question.router)
        routed = {name: replace(question, router=name, front_ends=1) for name in others}
    runs, count = {}, len(asked) + len(routed)
    for at, (name, other) in enumerate({**asked, **routed}.items()):
        share = part(progress, 0.3 + 0.7 * at / count, 0.3 + 0.7 * (at + 1) / count)
        changed = replace(resolved, scenario=other)
        runs[name] = run(changed, objects, share, cancelled, drawn=whole.drawn)
    return Worth(
        {"all tiers": whole, **{name: runs[name] for name in asked}},
        {question.router: whole, **{name: runs[name] for name in routed}} if routed else {},
    )


def worth_of_setup(
    asked: tuple[Setup, Question, Mapping[str, Any]], progress: Progress, cancelled: Cancel
) -> tuple[Setup, Worth]:
    """`worth` for a setup under another question; returned with the setup, so that a page can match
    it.
    """
    setup, question, objects = asked
    resolved = resolve_setup(replace(setup, scenario=question))
    return setup, worth(resolved, objects, progress, cancelled)


def _left_out(left: tuple[str, ...], names: tuple[str, ...]) -> dict[str, Any]:
    """Parameter values that remove the tiers `left`.  names: of all tiers present."""
    changed = {f"{tier}_cache_{what}": _OFF[what] for tier in left for what in _OFF}
    return changed | ({"cache_writes": "through"} if left == names else {})


#: Parameter values that remove each tier.
_OFF: Mapping[str, Any] = {"gib": 0.0, "gb_per_s": 0.0, "price": None}
