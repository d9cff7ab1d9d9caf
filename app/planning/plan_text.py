"""An answer in words, for the terminal, beside the table of its plans."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from app.planning.targets import FIGURES
from app.wording import quantities

_MOST_OTHERS = 8
#: Equal servers of which each launch line is shown.
_MOST_LINES = 8
_LIMIT_THE_WAIT = ("ttft", "e2e")
#: From this time, and this multiple of the bound, a first token is said to wait.
_LONG_WAIT_S, _LONG_WAIT = 1.0, 10.0


def sentences(named: Mapping[str, Any]) -> list[str]:
    """Lines on the best plan, the others, and possible changes, from `document.document`."""
    return [*_best(named), *_others(named), *_pays(named), *_help(named)]


def ranked_words(named: Mapping[str, Any]) -> str:
    """What the plans are ranked by, for a reader; see `Ranking.worth`."""
    by = FIGURES[named["ranked_by"]]
    if by.latency or not named["targets"]:
        return by.words
    return (
        f"{by.words} {'over' if by.smaller else 'times'} the probability that the targets are met"
    )


def priced_words(named: Mapping[str, Any]) -> str:
    """How many deployments were priced, and how many meet the targets, or sustain the load where
    there are none.
    """
    many, end = named["meet_targets"], "s" if named["meet_targets"] == 1 else ""
    good = f"meet{end} the targets" if named["targets"] else f"sustain{end} the load"
    return f"{quantities.counted(named['deployments'], 'deployment')} priced, {many:,} {good}"


def none_words(named: Mapping[str, Any]) -> str:
    """Why there is no plan, for a reader."""
    if count := named["undecided"]:
        return (
            f"not validated in closed form: {count:,} of {named['deployments']:,} deployments may "
            "meet every target, but no measured run gives their percentiles an interval; simulate "
            "them to find out"
        )
    return (
        "no deployment meets every target"
        if named["targets"]
        else "no deployment sustains the load"
    )


def missed(named: Mapping[str, Any]) -> str:
    """How many further deployments missed the targets only in simulation; "" for none."""
    count = named["rejected_by_simulation"]
    return f" ({count:,} more until simulated)" if count else ""


def chance(plan: Mapping[str, Any]) -> str:
    """The probability of a plan, and whether measurements validate its kind; "–" for a validated
    one without targets.
    """
    if plan["probability"] is None:
        return quantities.NOT_VALIDATED
    if plan.get("margins") == {}:
        return "–"
    shown = quantities.chance(plan["probability"])
    return shown if plan["probability_validated"] else f"{shown}, {quantities.NOT_VALIDATED}"


def _pays(named: Mapping[str, Any]) -> Iterator[str]:
    if named["pays"]:
        yield "\nbreak-even by load:"
    for one in named["pays"]:
        yield f"  {one['words']}"


def _best(named: Mapping[str, Any]) -> Iterator[str]:
    wanted = f": {', '.join(named['targets'])}" if named["targets"] else ""
    yield f"{priced_words(named)}{wanted}{missed(named)}; ranked by {ranked_words(named)}"
    if not named["plans"]:
        return
    best = named["plans"][0]
    for name, share in best["margins"].items():
        if share is not None:
            yield f"margin to {FIGURES[name].title}: {quantities.percent(share)}"
    yield f"percentiles: {best['percentiles']}"
    if waits := long_wait(named):
        yield waits
    if best["choices_like_it"]:
        yield f"similar choices {best['choices_like_it']['words']}"
    yield from beside(named)
    if found := named["settling"]:
        yield f"a measurement that would decide: {found['words']}:"
        yield f"  {found['command']}"
    fewest = named["fewest_devices"]
    if fewest and fewest["devices"] < best["devices"]:
        enough = "meet the targets" if named["targets"] else "sustain the load"
        yield (
            f"fewest devices that {enough}: {fewest['devices']} x {fewest['system']}, "
            f"{fewest['engine']}"
        )
    yield ""
    engine = f"{best['engine']} {best['launch_version']}".strip()
    yield f"start it ({engine}):"
    yield from (f"  {line}" for line in launch_lines(best))
    for name, text in best["launch_files"].items():
        yield f"  {name}:"
        yield from (f"    {line}" for line in text.splitlines())
    yield from (f"  note: {note}" for note in best["launch_notes"])
    if best["benchmark"]:
        yield f"check it:\n  {best['benchmark']}"
    if best["guard"]:
        yield f"  {best['guard']}"


def launch_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """Launch lines of a plan, for a reader: of many equal servers only the first and the last."""
    lines = iter(plan["launch"].splitlines())
    for server in plan["launch_servers"]:
        of_pool = list(islice(lines, server["count"]))
        if len(of_pool) > _MOST_LINES:
            of_pool[1:-1] = [f"# {len(of_pool) - 2} more like these, on the ports between"]
        yield from of_pool
    yield from lines


def long_wait(named: Mapping[str, Any]) -> str:
    """A sentence on first tokens of the best plan that wait long because no target limits them,
    "" where they do not.
    """
    best = named["plans"][0]
    limited = any(
        target.partition(" ")[0].startswith(_LIMIT_THE_WAIT) for target in named["targets"]
    )
    ttft, bound = best["ttft_s"] or 0.0, best["bound_ttft_s"] or 0.0
    if limited or ttft < _LONG_WAIT_S or ttft < _LONG_WAIT * bound:
        return ""
    return (
        f"no target limits the wait for a first token: it takes {quantities.seconds(ttft)} under "
        "this load; add one such as ttft < 2s"
    )


def beside(named: Mapping[str, Any]) -> list[str]:
    """The gamble and the safe choice beside the best plan, in words; "" where there are none."""
    said = []
    for name, called in (("gamble", "riskier alternative"), ("safe", "safer alternative")):
        if other := named[name]:
            better = other["better_by"]
            said.append(
                f"{called}: {with_prefill(other)} on {other['system']}, {other['engine']}: "
                f"{FIGURES[named['ranked_by']].words} {quantities.percent(abs(better))} "
                f"{'better' if better > 0 else 'worse'}, probability of meeting the targets "
                f"{chance(other)} instead of {chance(named['plans'][0])}"
            )
    return said


def _others(named: Mapping[str, Any]) -> Iterator[str]:
    others = named["others"]
    if others:
        yield "\nwhy not the others:"
    for other in others[:_MOST_OTHERS]:
        near = other.get("nearest")
        what = f" ({with_prefill(near)})" if near else ""
        yield f"  {other['family']}{what}: {other['why']}"
    if len(others) > _MOST_OTHERS:
        yield f"  ... {len(others) - _MOST_OTHERS} more in --json"


def shape(row: Mapping[str, Any]) -> str:
    """Replicas and degrees of a row in short: "3 x TP2", "2 x TP1 DP8 EP8"."""
    degrees = " ".join(
        f"{name.upper()}{int(row[name])}"
        for name in ("tp", "pp", "dp", "ep")
        if row[name] > 1 or name == "tp"
    )
    replicas = int(row["replicas"])
    return f"{replicas} x {degrees}" if replicas > 1 else degrees


def with_prefill(row: Mapping[str, Any]) -> str:
    """`shape` of a plan, preceded by its prefill pool if it has one."""
    pool = row["prefill"]
    first = f"{pool['workers']} prefill x TP{pool['tp']} on {pool['system']}, " if pool else ""
    return f"{first}{shape(row)}"


def short(plan: Mapping[str, Any]) -> str:
    """Replicas, degrees, engine and format of a plan."""
    drafts = f", {plan['speculation']}" if plan["speculation"] else ""
    return f"{with_prefill(plan)}, {plan['engine']}, {plan['weights']}{drafts}"


def _help(named: Mapping[str, Any]) -> Iterator[str]:
    if not named["plans"]:
        yield f"\n{none_words(named)}{'; there would be one with:' if named['changes'] else ''}"
    yield from (f"  {change['words']}" for change in named["changes"])
    if measured := named["measurement"]:
        yield f"\nto narrow the interval of {measured['figure']}, measure {measured['words']}:"
        yield f"  {measured['command']}"
    for left in named["left_out"]:
        yield f"left out: {left['what']}: {left['why']}"
    yield from (f"note: {note}" for note in named["notes"])
