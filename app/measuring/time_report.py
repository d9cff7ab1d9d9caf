"""Where the measured time goes, ranked by what can be saved, and what to change.

Each part is compared with the bound, the prediction for its engine and the best known measured run
of the model and the device.  A change is priced anew, and its predicted relative saving is applied
to the measured time.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.measuring.best_runs import best_step
from app.measuring.comparison import Compared
from app.measuring.completion import estimate_filled
from app.question.question import Question
from app.scenario import intervals
from app.scenario.intervals import Ranged
from app.scenario.scenario import Resolved, resolve
from app.scenario.served_rows import completed
from app.wording import quantities
from genz_core.deployment import as_server, bulk_format
from genz_core.errors import RidgelineError
from profilers.comparison.findings import CLASS_WORDS

#: Least saving of a change that is shown, and number of changes shown. Both are judgements.
_LEAST, _MOST = 0.02, 6
_WIDE = ("bf16", "fp16", "fp32")


@dataclass(frozen=True, slots=True)
class Spent:
    """Time of a part of a request or of a step [s], NaN where there is nothing to compare with.

    best_s: of the best known measured run, and `run` which one it was.
    """

    part: str
    measured_s: float
    bound_s: float
    predicted_s: float
    best_s: float = math.nan
    run: str = ""

    @property
    def to_win_s(self) -> float:
        """Time that could be saved according to other runs or the prediction, the larger of both, 0
        for none.
        """
        sides = [s for s in (self.predicted_s, self.best_s) if s > 0]
        return max(self.measured_s - max(min(sides), self.bound_s), 0.0) if sides else 0.0

    @property
    def sentence(self) -> str:
        """The part in words."""
        beside = [f"bound {quantities.seconds(self.bound_s)}"] if self.bound_s > 0 else []
        if self.predicted_s > 0:
            beside.append(f"predicted {quantities.seconds(self.predicted_s)}")
        if self.best_s > 0:
            beside.append(f"best known {quantities.seconds(self.best_s)} ({self.run})")
        sides = f" ({', '.join(beside)})" if beside else ""
        won = (
            f"{quantities.seconds(self.to_win_s)} could be saved"
            if self.to_win_s
            else "nothing to save"
        )
        return f"{self.part}: {quantities.seconds(self.measured_s)}{sides}, {won}"


@dataclass(frozen=True, slots=True)
class Change:
    """A single change and its predicted saving of the measured time [s].

    saves_s: the predicted relative saving, applied to the measured time; it assumes that the run's
    own gap to its prediction remains.  low_s, high_s: 80 % interval of the saving: the measured
    time minus the ends of the changed deployment's interval; NaN without an interval.
    """

    what: str
    saves_s: float
    low_s: float
    high_s: float
    of_s: float

    @property
    def sentence(self) -> str:
        """The change in words."""
        share = quantities.percent(self.saves_s / self.of_s)
        ends = "not validated"
        if math.isfinite(self.low_s):
            low, high = (quantities.percent(s / self.of_s) for s in (self.low_s, self.high_s))
            ends = f"80 %: {low} to {high}"
        return f"{self.what}: {quantities.seconds(self.saves_s)} less, {share} ({ends})"


@dataclass(frozen=True, slots=True)
class TimeReport:
    """of: what the time refers to ("a request", "a step of decode").  total_s: measured.

    spent: its parts, largest saving first.  changes: largest saving first, of `judged` ("E2E").
    """

    of: str
    total_s: float
    spent: tuple[Spent, ...]
    changes: tuple[Change, ...]
    judged: str = ""

    def document(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        return {
            "of": self.of,
            "total_s": self.total_s,
            "judged": self.judged,
            "spent": [
                {**asdict(s), "to_win_s": s.to_win_s, "sentence": s.sentence} for s in self.spent
            ],
            "changes": [{**asdict(c), "sentence": c.sentence} for c in self.changes],
        }

    @property
    def advice(self) -> str:
        """The sentence that precedes the changes."""
        return f"what to change, and what it saves of {self.judged or self.of}:"

    @property
    def lines(self) -> list[str]:
        """The report in sentences."""
        return [
            f"where the time of {self.of} goes, {quantities.seconds(self.total_s)}:",
            *(f"- {one.sentence}" for one in self.spent),
            *([self.advice] if self.changes else []),
            *(f"- {one.sentence}" for one in self.changes),
        ]


def ranked(parts: Iterable[Spent]) -> tuple[Spent, ...]:
    """Parts, largest saving first; equal savings by time."""
    return tuple(sorted(parts, key=lambda one: (-one.to_win_s, -one.measured_s)))


# ------------------------------------------------------------------------------- changes


def alternatives(resolved: Resolved, *, served: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Single changes of a deployment that a user can make: in words, and as parameters.

    served: whether limits of the server are among them.
    """
    q, weights = resolved.scenario, bulk_format(resolved.model)
    if served:
        own = as_server(resolved.engine, resolved.system)
        for name, limit, words in (
            ("max_num_seqs", own.max_sequences, "sequences in a step"),
            ("max_num_batched_tokens", own.chunk_tokens, "tokens in a step"),
        ):
            now = int(getattr(q, name) or 0) or limit
            for value in (now * 2, now * 4, now // 2) if now else ():
                yield f"at most {value:,} {words} in place of {now:,}", {name: value}
    if q.tp * q.pp * q.dp < 16:
        yield f"tp {q.tp * 2} in place of {q.tp}, twice the devices", {"tp": q.tp * 2}
    if q.tp > 1 and q.dp == 1:
        yield f"tp {q.tp // 2} and dp 2 on the same devices", {"tp": q.tp // 2, "dp": 2}
    if weights in _WIDE:
        yield f"weights in fp8 in place of {weights}", {"weights": "fp8"}
    if resolved.model.precision.kv in _WIDE:
        yield f"the KV cache in fp8 in place of {resolved.model.precision.kv}", {"kv": "fp8"}
    if resolved.engine.era or resolved.engine.version:
        version = resolved.engine.version
        yield f"the newest release in place of {version}", {"engine_version": ""}
    if resolved.engine.name == "hf":
        yield "compiled (hf-compile) in place of eager Transformers", {"engine": "hf-compile"}


def worth(
    options: Iterable[tuple[str, Mapping[str, Any]]],
    measured_s: float,
    base: Ranged,
    priced: Callable[[Mapping[str, Any]], Ranged],
) -> tuple[Change, ...]:
    """The changes that save the most of a measured time, largest first.

    base: the prediction of what ran.  priced: prices the same after a change.
    """
    found = []
    for what, change in options:
        try:
            after = priced(change)
        except RidgelineError:
            continue
        saved = 1.0 - after.value / base.value
        if not saved > _LEAST:
            continue
        saves_s = saved * measured_s
        ends = [measured_s - after.high, measured_s - after.low]
        low, high = (math.nan, math.nan)
        if all(map(math.isfinite, ends)):
            low, high = min(*ends, saves_s), max(*ends, saves_s)
        found.append(Change(what, saves_s, low, high, measured_s))
    found.sort(key=lambda one: -one.saves_s)
    return tuple(found[:_MOST])


# ------------------------------------------------------------------------------- profiles


def of_profile(compared: Compared) -> tuple[TimeReport, ...]:
    """A report for each compared phase; none where the run differs from the priced scenario, where
    a check of the phase fails, or where no part of it was measured.
    """
    if compared.filled.differences:
        return ()
    comparison = compared.comparison
    failing = {one.phase for one in comparison.failed if not one.part}
    reports = (
        _of_phase(compared, whole)
        for whole in comparison.phases.to_dict("records")
        if whole["phase"] in ("prefill", "decode") and not {"", whole["phase"]} & failing
        and whole["measured_s"] > 0
    )  # fmt: skip
    return tuple(one for one in reports if one.spent)


def _of_phase(compared: Compared, whole: Mapping[str, Any]) -> TimeReport:
    phase, resolved = str(whole["phase"]), compared.resolved
    classes = compared.comparison.classes
    rows = classes[(classes["phase"] == phase) & (classes["measured_s"] > 0)].to_dict("records")
    parts = []
    for row in rows:
        words = f"{CLASS_WORDS.get(row['class'], row['class'])} in {phase}"
        parts.append(Spent(words, row["measured_s"], row["bound_s"], row["predicted_s"]))
    load = compared.filled.loads.get(phase, resolved.scenario.workload)
    isl, osl, batch = (float(getattr(load, name)) for name in ("isl", "osl", "batch"))
    q = resolved.scenario
    best = best_step(
        phase, resolved.model.name, resolved.system.slug, bulk_format(resolved.model),
        int(q.tp * q.pp * q.dp),
        batch=batch, tokens=isl if phase == "prefill" else isl + osl / 2.0,
    )  # fmt: skip
    if best is not None:
        parts.append(
            Spent(f"a whole step of {phase}", whole["measured_s"], whole["bound_s"],
                  whole["predicted_s"], best.seconds, best.run)
        )  # fmt: skip

    def priced(change: Mapping[str, Any]) -> Ranged:
        return _step(compared, phase, change)

    options = alternatives(resolved, served=False)
    changes = worth(options, float(whole["measured_s"]), priced({}), priced)
    return TimeReport(f"a step of {phase}", float(whole["measured_s"]), ranked(parts), changes)


def _step(compared: Compared, phase: str, change: Mapping[str, Any]) -> Ranged:
    """The step of a phase after a change, with other fields as they were filled."""
    found = compared.resolved
    if change:
        question: Question = replace(found.scenario, **change)
        changed = completed(resolve(question), {})
        if changed.engine.name == found.engine.name:  # the unfused kernels run in both
            changed = replace(changed, engine=replace(changed.engine, eager=found.engine.eager))
        found = changed
    return intervals.step_latency(estimate_filled(found, compared.filled.loads), phase)
