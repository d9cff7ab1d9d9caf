"""The five errands that users come with: values drawn at random, walked with touches counted, and
the right answer, computed by code that shares nothing with the pages.

A touch is a control that is set or pressed; what is typed into it, Enter included, belongs to it.
Deployments are priced by `genz_core.serve` alone and ranked by plain loops, percentiles are those
of the log of a simulation, and of files the sums of what the test wrote into them.  No value that
is drawn is a default or that of a usual load.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import hardware_db
import model_registry
from genz_core.serving import Traffic, serve
from genz_core.types import Parallelism
from tests.browser.journeys import TRACE, Walk

#: Models, and systems as one types them, with their slugs; none is a default.
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-70B")
SYSTEMS = {"h200": "h200-sxm-141gb", "b200": "b200-sxm-180gb", "mi300x": "mi300x-192gb"}
#: Systems whose runs under both engines were measured, so that a plan is as sure of one as of the
#: other.
PRICED = ("h200", "b200")
ENGINES = ("vllm", "sglang")
#: How much lengths vary about the means that are asked for, unless a question says otherwise.
VARIATION = 0.1
#: Targets leave this much room, the next deployment costs this much more, and no more of the
#: capacity is asked for: one answer is right whatever is added for the chance of missing a target.
ROOM, DEARER, MOST_BUSY = 1.5, 1.1, 0.6


@dataclass(frozen=True)
class Errand:
    """A question with its values.

    form: walks it through the form, line: by a typed line, each returns what was read, None where
    there is no such way.  answer: what has to be read, of_line: by the line, where that is other.
    most: touches by the form and by the line.
    """

    question: str
    most: tuple[int, int]
    form: Callable[[Walk], Any]
    answer: Callable[[], Any]
    line: Callable[[Walk], Any] | None = None
    of_line: Callable[[], Any] | None = None
    near: float = 0.006  # half a unit of the third digit, which pages show

    def answer_of_line(self) -> Any:
        """What has to be read where the line was typed, if it asks more than the form."""
        return (self.of_line or self.answer)()


# ------------------------------------------------------------------------------- brute force


def layouts(model_name: str, slug: str, most: int) -> Iterator[Parallelism]:
    """Degrees of a dense model on at most so many devices of one link's domain."""
    model = model_registry.load(model_name)
    for tp in (1, 2, 4, 8):
        for pp in (1, 2, 4):
            split = Parallelism(tp, pp, 1, 1)
            if tp * pp <= most and model.invalid(split) is None:
                yield split


def served(model: str, slug: str, engine: str, split: Parallelism, lengths, **load) -> Any:
    """Figures of one replica at loads, by the library alone."""
    one = np.ones(len(next(iter(load.values()))))
    degrees = Parallelism(split.tp * one, split.pp * one, one, one)
    longest = (mean * (1.0 + VARIATION) for mean in lengths)
    loads = {name: np.array(values, dtype=float) for name, values in load.items()}
    traffic = Traffic(*longest, length_ratio=(1.0 - VARIATION) / (1.0 + VARIATION), **loads)
    return serve(
        model_registry.load(model), hardware_db.load(slug), traffic, degrees,
        hardware_db.load_engine(engine), on_error="status",
    )  # fmt: skip


def deployments(model: str, slugs: Sequence[str], engine: str, lengths, rate: float) -> list[dict]:
    """Every deployment of at most eight devices that sustains a rate, the cheapest first."""
    rows = []
    for slug in slugs:
        price = hardware_db.load(slug).price_usd_per_hour
        for split in layouts(model, slug, 8):
            each = split.tp * split.pp
            replicas = range(1, 8 // each + 1)
            shares = [rate / many for many in replicas]
            out = served(model, slug, engine, split, lengths, rate_per_s=shares)
            rows += [
                {
                    "system": slug, "tp": split.tp, "pp": split.pp, "replicas": many,
                    "devices": each * many, "tpot_s": float(out.tpot_s[at]),
                    "busy": float(out.utilisation[at]),
                    "usd": price * each * many / (rate * lengths[1]) / 3600.0 * 1e6,
                }
                for at, many in enumerate(replicas)
                if out.status[at] == "ok"
            ]  # fmt: skip
    return sorted(rows, key=lambda row: (row["usd"], row["tpot_s"]))


def best_at_speed(model: str, slug: str, engine: str, lengths, speed: float) -> float | None:
    """Cost of a million output tokens of the replica with the most tokens/s a device at which
    every user has a speed; None where none is that fast."""
    best, price = 0.0, hardware_db.load(slug).price_usd_per_hour
    for split in layouts(model, slug, 8):
        users = np.unique(np.round(np.exp2(np.arange(0.0, 12.01, 0.02))))
        out = served(model, slug, engine, split, lengths, concurrency=users)
        fast = (out.status == "ok") & (1.0 / out.tpot_s >= speed) & (users <= out.running * 1.001)
        if fast.any():
            best = max(best, float(out.output_tokens_per_s[fast].max()) / (split.tp * split.pp))
    return price / best / 3600.0 * 1e6 if best else None


def percentile(values: Sequence[float], share: float) -> float:
    """A percentile of numbers, between its two neighbours in proportion."""
    ordered = sorted(value for value in values if math.isfinite(value))
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


# ------------------------------------------------------------------------------- reading


def number(text: str) -> float:
    """The first number of a text, in SI units: of "12.3 ms" 0.0123, of "$0.64" 0.64."""
    found = re.search(r"([\d,.]+)\s*(ms|µs|s\b)?", text)
    assert found, text
    return float(found[1].replace(",", "")) * {"ms": 1e-3, "µs": 1e-6}.get(found[2] or "", 1.0)


def card(walk: Walk, label: str) -> str:
    """What a card says below its label."""
    cards = walk.page.get_by_test_id("stMetric").filter(has_text=re.compile(f"^{re.escape(label)}"))
    cards.first.wait_for()
    return str(cards.first.inner_text()).split("\n", 1)[1]


def table(walk: Walk, column: str, *names: str) -> list[dict[str, str]]:
    """The rows of the table that has a column, as a screen reader has them, once each of the names
    stands in a row: a screen reader has new rows a fifth of a second after they are drawn.
    """
    found = walk.page.wait_for_function(_TABLE, arg=[column, names])
    head, *rows = found.json_value()
    return [dict(zip(head, row, strict=False)) for row in rows]


#: The first table with a column and with names: its rows, a list of texts each; null while there
#: is none.
_TABLE = """([column, names]) => {
    for (const table of document.querySelectorAll('[data-testid="stDataFrame"] canvas table')) {
        const rows = [...table.querySelectorAll('tr')].map(
            row => [...row.children].map(cell => cell.textContent.trim()));
        const named = name => rows.some(row => row.some(text => text.includes(name)));
        if (rows.length > 1 && rows[0].includes(column) && names.every(named)) return rows;
    }
    return null;
}"""


# ------------------------------------------------------------------------------- the errands


def cheapest(luck: random.Random) -> Errand:
    """The cheapest deployment within targets."""
    while True:
        model, engine = luck.choice(MODELS), luck.choice(ENGINES)
        names = luck.sample(PRICED, 2)
        lengths = luck.randint(300, 3000), luck.randint(60, 700)
        rate = round(luck.uniform(1.1, 30.0), 1)
        rows = deployments(model, [SYSTEMS[name] for name in names], engine, lengths, rate)
        found = _decided(rows)
        if found:
            break
    row, limit_s = found
    target = f"tpot < {limit_s * 1e3:.2f}ms"

    def read(walk: Walk) -> tuple[float, int, str]:
        walk.until_simulated()
        dollars = number(card(walk, "Cost per 1M tokens"))
        return dollars, int(card(walk, "Devices").split()[0]), _headline(walk)

    def form(walk: Walk) -> Any:
        walk.press("Plan", role="link")
        walk.type("Model", model)
        walk.type("Engine", engine)
        walk.type("Load", f"{rate}/s")
        walk.type("Lengths in / out", f"{lengths[0]} / {lengths[1]}")
        walk.type("Targets", target)
        walk.press("Choose")
        walk.type("Systems", *names)
        return read(walk)

    def line(walk: Walk) -> Any:
        walk.ask(f"{model} on {' or '.join(names)} {engine} {rate}/s {lengths[0]}/{lengths[1]} "
                 f"{target}")  # fmt: skip
        return read(walk)

    shape = "PP{pp}".format(**row) if row["pp"] > 1 else ""
    words = f"{row['devices']} × {row['system']}", f"TP{row['tp']}", shape
    return Errand(
        f"cheapest of {names} for {model} at {rate}/s of {lengths}, {target}", (8, 2), form,
        lambda: (row["usd"], row["devices"], words), line,
    )  # fmt: skip


def _decided(rows: Sequence[dict]) -> tuple[dict, float] | None:
    """A deployment that a target makes the cheapest by far, and the target [s]; None where no
    target does.  Prefill pools, which have two devices and more, are dearer than it.
    """
    pools = 2.0 * min((row["usd"] / row["devices"] for row in rows), default=math.inf)
    for at, row in enumerate(rows):
        fastest_cheaper = min((one["tpot_s"] for one in rows[:at]), default=math.inf)
        limit = min(fastest_cheaper * 0.97, row["tpot_s"] * 2.0)
        others = [one["usd"] for one in rows[at + 1 :] if one["tpot_s"] < limit]
        if (
            limit > row["tpot_s"] * ROOM and row["busy"] < MOST_BUSY
            and row["usd"] * DEARER < pools
            and (not others or min(others) > row["usd"] * DEARER)
        ):  # fmt: skip
            return row, round(limit, 5)
    return None


def _headline(walk: Walk) -> str:
    return str(walk.see(r"^\d+ × \S+: "))


def three_systems(luck: random.Random) -> Errand:
    """Three systems at a speed of each user, with their cost."""
    model, engine = luck.choice(MODELS), luck.choice(ENGINES)
    lengths = luck.randint(300, 3000), luck.randint(60, 700)
    speed = luck.choice([one for one in range(21, 75) if one != 40])
    target = f"tpot < {1e3 / speed:.2f}ms"

    def read(walk: Walk) -> dict[str, float | None]:
        walk.see(f"The best deployments that give every user {speed} tokens/s or more")
        names = {slug: hardware_db.load(slug).name for slug in SYSTEMS.values()}
        rows, cost = table(walk, "deployment", *names.values()), "$ per Mtok out"
        return {
            slug: next((number(row[cost]) for row in rows
                        if name in row["deployment"] and "$" in row.get(cost, "")), None)
            for slug, name in names.items()
        }  # fmt: skip

    def form(walk: Walk) -> Any:
        walk.press("Compare", role="link")
        walk.type("Model", model)
        walk.type("Engine", engine)
        walk.type("Lengths in / out", f"{lengths[0]} / {lengths[1]}")
        walk.type("Targets", target)
        walk.press("Choose")
        walk.type("Systems", *SYSTEMS)
        return read(walk)

    def line(walk: Walk) -> Any:
        walk.ask(f"{model} on {', '.join(SYSTEMS)} {engine} {lengths[0]}/{lengths[1]} {target} "
                 "aggregated")  # fmt: skip
        walk.press("Compare", role="link")
        return read(walk)

    return Errand(
        f"{list(SYSTEMS)} for {model} under {engine}, {lengths}, at {speed} tokens/s", (8, 3), form,
        lambda: {slug: best_at_speed(model, slug, engine, lengths, speed)
                 for slug in SYSTEMS.values()},
        line, near=0.03,
    )  # fmt: skip


def own_devices(luck: random.Random) -> Errand:
    """Whether the devices at hand carry a load, and at what P99."""
    model, system = luck.choice(MODELS[:3]), luck.choice(list(SYSTEMS))
    tp, rate = luck.choice((2, 4)), round(luck.uniform(1.1, 4.0), 1)
    lengths = luck.randint(300, 3000), luck.randint(60, 300)
    limit_ms = luck.randint(31, 60)

    def figures(tp: int = tp, replicas: int = 1, engine: str = "vllm", **more: Any) -> list[float]:
        import ridgeline

        log = ridgeline.simulate(
            model, system=SYSTEMS[system], engine=engine, tp=tp, replicas=replicas, rate=rate,
            isl=lengths[0], osl=lengths[1], **more,
        ).simulation  # fmt: skip
        counted = np.asarray(log.counted)
        spent = (log.e2e_s - log.ttft_s)[counted] / (lengths[1] - 1)
        return [percentile(log.ttft_s[counted], 0.99), percentile(spent, 0.99)]

    def form(walk: Walk) -> Any:
        walk.type("Model", model)
        walk.type("System", system)
        walk.type("TP", str(tp))
        walk.type("Load", f"{rate}/s")
        walk.type("Lengths in / out", f"{lengths[0]} / {lengths[1]}")
        walk.press("Simulate", role="radio")
        walk.press("Simulate")
        cards = (card(walk, f"{name}, median") for name in ("TTFT", "TPOT"))
        return [number(said.split("p99: ")[1]) for said in cards]

    def line(walk: Walk) -> Any:
        walk.ask(f"{model} on {tp} {system} vllm {rate}/s {lengths[0]}/{lengths[1]} "
                 f"p99 tpot < {limit_ms} ms aggregated")  # fmt: skip
        walk.until_simulated()
        (row,) = table(walk, "Layout")
        layout = row["Layout"]
        replicas, degree = re.search(r"(?:(\d+) x )?TP(\d+)", layout).groups()
        stages = re.search(r"PP(\d+)", layout)
        # the P99 of a thousand requests varies by a tenth with their arrivals
        right = figures(int(degree), int(replicas or 1), pp=int(stages[1]) if stages else 1,
                        requests=4000)  # fmt: skip
        met = not row["Meets all targets"].startswith("no")
        assert int(row["Devices"]) == tp and met == (right[1] < limit_ms * 1e-3), (row, right)
        return [number(row["TPOT P99"]) / right[1]]

    return Errand(
        f"{tp} x {system} for {model} at {rate}/s of {lengths}", (7, 2), form,
        figures, line, lambda: [1.0], near=0.15,
    )  # fmt: skip


def traced(luck: random.Random, folder: Path) -> Errand:
    """Where the time of a trace goes."""
    document = json.loads(gzip.decompress(TRACE.read_bytes()))
    shorter = defaultdict(lambda: luck.uniform(0.2, 1.0))
    time_us, launches = defaultdict(float), defaultdict(int)
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel":
            event["dur"] = round(event["dur"] * shorter[event["name"]], 3)
            time_us[event["name"]] += event["dur"]
            launches[event["name"]] += 1
    file = folder / "mine.json"
    file.write_text(json.dumps(document))
    longest = max(time_us, key=time_us.__getitem__)

    def form(walk: Walk) -> Any:
        walk.to_upload()
        walk.bring(file)
        words = walk.see("^Longest kernel: ")
        count = int(re.search(r"in ([\d,]+) launches", words)[1].replace(",", ""))
        return number(words.partition(": ")[2]), number(card(walk, "Kernel time")), count

    return Errand(
        "where the time of a trace goes", (3, 0), form,
        lambda: (time_us[longest] / 1e6, sum(time_us.values()) / 1e6, launches[longest]),
    )  # fmt: skip


def benchmarked(luck: random.Random, folder: Path) -> Errand:
    """Whether the run of a benchmark is well tuned: where it is, and what a request spends."""
    requests, users = luck.randint(40, 90), luck.randint(5, 30)
    isl, osl = luck.randint(300, 3000), luck.randint(60, 400)
    first = [luck.uniform(0.04, 0.3) for _ in range(requests)]
    gaps = [[luck.uniform(0.008, 0.02) for _ in range(osl - 1)] for _ in range(requests)]
    whole = [one + sum(rest) for one, rest in zip(first, gaps, strict=True)]
    seconds = sum(whole) / users
    document = {
        "date": "20260312-101500", "backend": "vllm", "endpoint_type": "openai",
        "model_id": "meta-llama/Llama-3.1-8B-Instruct", "num_prompts": requests,
        "request_rate": "inf", "max_concurrency": users, "duration": seconds,
        "completed": requests, "total_input_tokens": requests * isl,
        "total_output_tokens": requests * osl, "request_throughput": requests / seconds,
        "output_throughput": requests * osl / seconds,
        "mean_ttft_ms": 1e3 * fmean(first), "mean_e2el_ms": 1e3 * fmean(whole),
        "mean_tpot_ms": 1e3 * fmean(map(fmean, gaps)), "input_lens": [isl] * requests,
        "output_lens": [osl] * requests, "ttfts": first, "itls": gaps, "errors": [""] * requests,
    }  # fmt: skip
    file = folder / f"h100x1_tp1_conc{users}.json"
    file.write_text(json.dumps(document))

    def form(walk: Walk) -> Any:
        walk.to_upload()
        walk.bring(file)
        whole_words = walk.see("^You are at ")
        parts = walk.see("^the first token: ")
        return number(whole_words.partition("at ")[2]), number(parts.partition(": ")[2])

    return Errand(
        "is a benchmark's run well tuned", (2, 0), form, lambda: (fmean(whole), fmean(first))
    )
