"""Figures in the text of documents: each is computed again, and replaced if it differs.

    python -m tests.figures                 # list those that differ
    python -m tests.figures --write         # replace them

A sentence is stated once, here, with a format in place of every figure; line breaks do not count.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import ridgeline

ROOT = Path(__file__).parents[1]
_NUMBER = r"([\d][\d,]*(?:\.\d+)?)"


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document.  text: with a format like "{:.1f}" in place of each figure."""

    document: str
    text: str
    figures: Callable[[], Sequence[float]]

    @property
    def pattern(self) -> re.Pattern[str]:
        """A pattern that finds the sentence, with one group per figure."""
        parts = []
        for words, field, _, _ in Formatter().parse(self.text):
            parts.append(r"\s+".join(map(re.escape, re.split(r"\s+", words))))
            parts += [_NUMBER] if field is not None else []
        return re.compile("".join(parts))

    def shown(self) -> list[str]:
        """The figures in the sentence's formats."""
        formats = [spec or "" for _, field, spec, _ in Formatter().parse(self.text)
                   if field is not None]  # fmt: skip
        return [format(value, spec) for value, spec in zip(self.figures(), formats, strict=True)]

    def found(self) -> re.Match[str]:
        """The place of the sentence in its document.

        Raises:
            LookupError: it is missing, or occurs twice.
        """
        text = (ROOT / self.document).read_text(encoding="utf-8")
        places = list(self.pattern.finditer(text))
        if len(places) != 1:
            raise LookupError(f"{self.document} has {len(places)} times: {self.text}")
        return places[0]

    def write(self) -> None:
        """Replace the figures in the document by the computed ones."""
        match = self.found()
        text = match.string
        for at, figure in reversed(list(enumerate(self.shown(), 1))):
            text = text[: match.start(at)] + figure + text[match.end(at) :]
        (ROOT / self.document).write_text(text, encoding="utf-8")


# ------------------------------------------------------------------------------- docs/simulation.md

_LLAMA: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B", "system": "h100", "engine": "vllm", "weights": "fp8",
    "tp": 4,
}  # fmt: skip
_USERS = (8, 64, 256)


def _closed_form_beside_simulation() -> list[float]:
    load = {**_LLAMA, "isl": 1024, "osl": 1024}
    closed = ridgeline.serve(**load, concurrency=list(_USERS))
    runs = [ridgeline.simulate(**load, concurrency=users) for users in _USERS]
    figures = [*closed.tpot_s, *(run.tpot_mean_s for run in runs)]
    figures += [*closed.ttft_s, *(run.ttft_mean_s for run in runs)]
    return [1e3 * float(figure) for figure in figures]


def _starts_of_a_loop() -> list[float]:
    load = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm"}
    both = (
        ridgeline.simulate(**load, concurrency=16, burst_start=at_once) for at_once in (True, False)
    )
    return [1e3 * seconds for run in both for seconds in (run.ttft_mean_s, run.ttft_p99_s)]


def _loops_that_converge() -> list[float]:
    load = {
        "model": "meta-llama/Llama-3.1-8B", "system": "a100", "engine": "trtllm", "tp": 4,
        "concurrency": 87, "isl": 362, "osl": 96, "length_ratio": 0.8, "step_scale": 1,
    }  # fmt: skip
    each = (
        ridgeline.simulate(**load, burst_start=True, requests=87 * many) for many in (10, 50, 200)
    )
    return [1e3 * run.ttft_p50_s for run in (*each, ridgeline.simulate(**load))]


def _drafts() -> list[float]:
    load: dict[str, Any] = {
        "model": "deepseek-ai/DeepSeek-V3", "system": "b200", "engine": "sglang", "tp": 8,
        "concurrency": 32, "osl": 1024, "length_ratio": 0.8,
    }  # fmt: skip
    drafts = {"speculation": "mtp", "draft_tokens": 3}
    measured = ridgeline.simulate(**load, **drafts)
    stated = ridgeline.simulate(**load, **drafts, acceptance="0.5")
    without = ridgeline.simulate(**load)
    return [
        1e3 * measured.tpot_mean_s, _tokens_a_step(measured), 1e3 * stated.tpot_mean_s,
        _tokens_a_step(stated), 1e3 * without.tpot_mean_s,
    ]  # fmt: skip


def _tokens_a_step(run: Any) -> float:
    return float(run.to_dict()["speculation"]["tokens_per_step"])


_POOL = {"prefill_workers": 1, "prefill_tp": 4}


def _prefill_pool() -> list[float]:
    load = {**_LLAMA, "rate": 4, "isl": 4096, "osl": 512, "length_ratio": 0.8}
    pool = ridgeline.simulate(**load, **_POOL)
    both = ridgeline.simulate(**load, replicas=2)
    found = re.search(r"([\d.]+) prefill workers? match", pool.to_dict()["message"])
    assert found, pool.to_dict()["message"]
    times = (pool.tpot_mean_s, pool.ttft_mean_s, both.tpot_mean_s, both.ttft_mean_s)
    return [float(found[1]), *(1e3 * figure for figure in times)]


def _prefill_pool_in_closed_form() -> list[float]:
    load = {**_LLAMA, **_POOL, "rate": 4, "isl": 4096, "osl": 512, "length_ratio": 0.8}
    closed, simulated = ridgeline.serve(**load), ridgeline.simulate(**load)
    above = closed.ttft_s / simulated.ttft_mean_s - 1.0
    return [1e3 * closed.tpot_s, 1e3 * closed.ttft_s, 100.0 * above]


# ---------------------------------------------------------------------------- docs/changing-load.md

_LONG_PROMPTS: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm", "rate": 0.25,
    "isl": 60_000, "osl": 500, "ttft_target_s": 9, "tpot_target_s": 0.025,
}  # fmt: skip


@cache
def _day() -> dict[str, Any]:
    return dict(ridgeline.scale(**_LONG_PROMPTS, policy="hpa").to_dict())


def _a_day_under_an_autoscaler() -> list[float]:
    here, fixed = _day()["following"], _day()["fixed"]
    return [
        here["requests"], here["replica_hours"], 100 * here["good_share"], fixed["replicas"],
        fixed["replica_hours"], 100 * fixed["good_share"],
    ]  # fmt: skip


def _starts_of_a_day() -> list[float]:
    day = _day()
    return [day["replica"]["open"], day["following"]["starts"], day["startup_s"]]


@cache
def _available(**losses: Any) -> dict[str, Any]:
    asked = {**_LONG_PROMPTS, "requests": 4000, "share": 99.9, "lost": 1, **losses}
    return dict(ridgeline.availability(**asked).to_dict())


def _replicas_that_are_enough() -> list[float]:
    found = _available()
    return [found["replicas"], 100 * found["share"], found["replicas_with_lost"]]


def _replicas_on_average() -> list[float]:
    found, often = _available(), _available(mtbf_h=10)
    return [
        found["replicas_on_average"], 100 * found["unavailable"], 100 * often["unavailable"],
    ]  # fmt: skip


# ---------------------------------------------------------------------------------- docs/tour.md


def _users_of_the_tour() -> list[float]:
    served = ridgeline.serve(**_LLAMA, concurrency=64)
    return [1e3 * float(served.ttft_s), 1e3 * float(served.tpot_s)]


def _fewest_of_the_tour() -> list[int]:
    """With and without prefill pools, as page Plan starts."""
    asked = {"system": "h100", "rate": 20, "target": "tpot < 30ms"}
    plans = ridgeline.plan("Qwen/Qwen3-32B", **asked)
    return [plans.to_dict()["fewest_devices"]["devices"]]


# ---------------------------------------------------------------------------------------- README.md


def _a_second(row: str) -> float:
    """Configurations a second of a row of docs/speed.md; `row`: how its first cell begins."""
    table = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(row)}[^|]*\| ([\d.,]+) \|", table, re.MULTILINE)
    assert found, row
    return float(found[1].replace(",", ""))


#: Names of the held-out groups of README.md in docs/accuracy.md, per figure under load.
_HELD_OUT = (
    "this model on this GPU, at other loads or degrees", "none on this GPU", "none of this model",
    "the same, under older engine releases only",
)  # fmt: skip


def _accuracy(section: str, *cells: str) -> dict[str, float]:
    """Numbers by head of the row of docs/accuracy.md that begins with some cells."""
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    part = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in part.splitlines()
        if line.startswith("|")
    ]
    (row,) = (row for row in table if row[: len(cells)] == list(cells))
    return {head: float(cell) for head, cell in zip(table[0], row, strict=True)
            if re.fullmatch(r"[\d.]+", cell)}  # fmt: skip


def _errors(section: str, *cells: str, figure: str = "") -> list[float]:
    """Runs, mean and median error [%] of a row of docs/accuracy.md."""
    row, before = _accuracy(section, *cells), f"{figure} " if figure else ""
    runs = row["points"] if "points" in row else row["runs"]
    return [runs, row[f"{before}mean %"], row[f"{before}median %"]]


def _errors_under_load() -> list[float]:
    figures = []
    for known in _HELD_OUT:
        for figure in ("TPOT", "TTFT"):
            row = _accuracy("Under load", figure, known)
            figures += [
                row["points"],
                row["mean %"],
                row["median %"],
                row["mean %, plausible runs"],
            ]
    for figure in ("TPOT", "TTFT"):
        figures += _errors("Under load", figure, "three of your own runs, no others of this model")
    return figures


def _errors_of_other_runs() -> list[float]:
    apart = "Disaggregated prefill", "one GPU left out"
    return [
        *_errors(*apart, figure="TPOT"), *_errors(*apart, figure="TTFT"),
        *_errors("Static batches", "published, all", "this model on this GPU, at other sizes"),
        *_errors("Static batches", "published, all", "none on this GPU"),
        *_errors("Saturated throughput", "all"),
    ]  # fmt: skip


def _coverage() -> list[float]:
    rows = [
        _accuracy("Do the intervals hold?", figure, "this model and format on the device")
        for figure in ("TPOT", "TTFT")
    ]
    return [row[name] for name in ("coverage %", "novel %") for row in rows]


def _beside_other_tools() -> list[float]:
    return [
        value
        for figure in ("TPOT", "TTFT")
        for value in _errors("Under load", figure, _HELD_OUT[0])[1:]
    ]


_ERROR = "{:,.0f} | {:g} / {:g} % |"
_PLAUSIBLE = f"{_ERROR} {{:g}} % |"


SENTENCES = (
    Sentence(
        "docs/simulation.md",
        "mean TPOT {:.1f} / {:.1f} / {:.1f} ms in closed form, {:.1f} / {:.1f} / {:.1f} ms "
        "simulated; mean TTFT {:.0f} / {:.0f} / {:.0f} ms and {:.0f} / {:.0f} / {:.0f} ms.",
        _closed_form_beside_simulation,
    ),
    Sentence(
        "docs/simulation.md",
        "In the example above, mean TPOT is {:.1f} ms with {:.2f} tokens a step (the mean of "
        "what three sources say of DeepSeek's module), {:.1f} ms with `--acceptance 0.5` ({:.2f} "
        "tokens a step), and {:.1f} ms without drafts.",
        _drafts,
    ),
    Sentence(
        "docs/simulation.md",
        "wait {:.0f} ms for a first token on average and {:.0f} ms at p99 with a burst start, and "
        "{:.0f} and {:.0f} ms in the steady loop.",
        _starts_of_a_loop,
    ),
    Sentence(
        "docs/simulation.md",
        "median of {:.0f} ms over ten requests per user, {:.0f} ms over fifty, {:.0f} ms over two "
        "hundred, and {:.0f} ms in the steady loop.",
        _loops_that_converge,
    ),
    Sentence(
        "docs/simulation.md",
        "here {:.2f} prefill workers keep one decode worker full, so the prefill pool is "
        "the bottleneck. On the same eight devices mean TPOT is {:.1f} ms and mean TTFT {:.0f} ms; "
        "{:.1f} and {:.0f} ms where two replicas do both prefill and decode (`--replicas 2`).",
        _prefill_pool,
    ),
    Sentence(
        "docs/simulation.md",
        "Here it gives {:.1f} ms and {:.0f} ms; its TTFT is {:.0f} % above the simulated one.",
        _prefill_pool_in_closed_form,
    ),
    Sentence(
        "docs/tour.md",
        "64 users: TTFT and TPOT? | TTFT {:.0f} ms, TPOT {:.1f} ms |",
        _users_of_the_tour,
    ),
    Sentence(
        "README.md",
        "There are {:d} systems with the source of every number",
        lambda: [len(ridgeline.systems())],
    ),
    Sentence(
        "README.md",
        "{:d} models with exact parameter counts",
        lambda: [len(ridgeline.models())],
    ),
    Sentence(
        "README.md",
        "TPOT under load, mean / median error | {:g} / {:g} % | 27 / 15 % | 51 / 51 % | "
        "| TTFT under load | {:g} / {:g} % |",
        _beside_other_tools,
    ),
    Sentence(
        "README.md",
        "| TPOT under load, three engines, eight model families | configuration | "
        f"{_PLAUSIBLE} | TTFT under load | configuration | {_PLAUSIBLE} "
        f"| TPOT under load | GPU | {_PLAUSIBLE} | TTFT under load | GPU | {_PLAUSIBLE} "
        f"| TPOT under load | model | {_PLAUSIBLE} | TTFT under load | model | {_PLAUSIBLE} "
        f"| TPOT under load | newer engine releases | {_PLAUSIBLE} "
        f"| TTFT under load | newer engine releases | {_PLAUSIBLE} "
        f"| TPOT under load, with three of your own runs | model | {_ERROR} | "
        f"| TTFT under load, with three of your own runs | model | {_ERROR} |",
        _errors_under_load,
    ),
    Sentence(
        "README.md",
        f"| TPOT, disaggregated (separate prefill workers) | GPU | {_ERROR} | "
        f"| TTFT, disaggregated | GPU | {_ERROR} | "
        f"| one prefill, decode step or static batch, 2022 to 2026 | configuration | {_ERROR} | "
        f"| the same | device | {_ERROR} | "
        f"| output tokens/s of a saturated deployment | every run | {_ERROR} |",
        _errors_of_other_runs,
    ),
    Sentence(
        "README.md",
        "80 % intervals contained {:g} % of TPOT and {:g} % of TTFT, and {:g} and {:g} % in the "
        "third of runs",
        _coverage,
    ),
    Sentence(
        "README.md",
        "one thread ([docs/speed.md](docs/speed.md)) | {:,.0f} | {:,.0f}, its compiled core "
        "{:,.0f} | not counted |",
        lambda: [
            _a_second("Ridgeline, arrays, calibrated, one degree"),
            _a_second("aiconfigurator, cli_estimate"),
            _a_second("aiconfigurator, compiled core"),
        ],
    ),
    Sentence(
        "README.md",
        "GenZ prices {:.0f} configurations a second and models no engine under load",
        lambda: [_a_second("GenZ")],
    ),
)
#: Those whose figures take more than a few seconds; tests compute them at night.
SLOW_SENTENCES = (
    Sentence(
        "docs/tour.md",
        "at 20 requests a second? | fewest that do: {:d} |",
        _fewest_of_the_tour,
    ),
    Sentence(
        "docs/changing-load.md",
        "{:,.0f} requests in the day. Kubernetes' autoscaler takes {:.1f} replica-hours and keeps "
        "{:.0f} % of requests within the targets; {:.0f} fixed replicas take {:.0f} and keep "
        "{:.0f} %.",
        _a_day_under_an_autoscaler,
    ),
    Sentence(
        "docs/changing-load.md",
        "the metric of a replica ({:d} open requests) is so coarse that replicas are started {:d} "
        "times, and a queue builds up during the {:.0f} seconds of each start.",
        _starts_of_a_day,
    ),
    Sentence(
        "docs/changing-load.md",
        "{:d} replicas keep {:.1f} % of them within the targets while all serve, so {:d} are "
        "needed with one lost (N+1).",
        _replicas_that_are_enough,
    ),
    Sentence(
        "docs/changing-load.md",
        "Here {:d} are enough, because a replica is down {:.4f} % of the time; with "
        "`--mtbf-h 10` it is down {:.0f} % of the time.",
        _replicas_on_average,
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    other = 0
    for sentence in (*SENTENCES, *SLOW_SENTENCES):
        stands, today = list(sentence.found().groups()), sentence.shown()
        if stands == today:
            continue
        other += 1
        print(f"{sentence.document}: {' '.join(stands)} -> {' '.join(today)}")
        if chosen.write:
            sentence.write()
    return int(other > 0 and not chosen.write)


if __name__ == "__main__":
    sys.exit(main())
