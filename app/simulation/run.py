"""Simulate a question: draw the offered load, serve it, and return both with the question."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from app.question.question import Question
from app.scenario import cache_tiers, pools
from app.scenario.drafting import speculation
from app.scenario.gate import beyond_positions, context_complaint, longest
from app.scenario.pools import Prefill, balance_sentence, matched
from app.scenario.scenario import Resolved, basis
from app.scenario.setup import Setup, resolve_setup
from app.simulation import offered_load
from app.simulation.closed_form import ClosedForm, before_a_prompt_s, options_of
from app.simulation.trace_file import Trace
from app.wording import quantities
from genz_core.common.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.errors import ContextTooLong
from genz_core.models.model_kinds import check_one_by_one
from genz_core.models.speculative import Speculation
from genz_core.serving.cache_tiers import CacheTier
from genz_core.serving.disaggregation import Balance
from genz_core.serving.simulation import Options, Simulation, simulate
from genz_core.serving.whole_prompts import over_budget
from genz_core.types import Array
from hardware_db.recipes import StepScale

#: Latencies that may have a target, each by the parameter `*_target_s`.
_TARGETS = ("ttft_s", "tpot_s", "e2e_s")
#: Note on every simulated latency, for documents and captions.
UNVALIDATED = "simulated latencies have no interval, because no measured percentiles validate them"
_ALIKE = 0.005  # a correction too small to mention
#: Share of the time in which requests arrive, up to which a request is short: judgement.
_SHORT = 0.05
_GROWTH = 0.5  # relative growth of open requests from the second to the last quarter of arrivals
_CHANCE = 3.0  # standard deviations of their number that still count as no growth
_GROWING = (
    "the queue grows as long as requests arrive: the deployment does not sustain this rate, so "
    "latencies depend on how many requests were simulated; add replicas or devices"
)
_IN_STEP = (
    "users who pause for equal times fall in step: they are served together, and return together; "
    "think_spread varies the pauses"
)
_WAVES = (
    "users that start together with equal requests are served in waves, so TTFT is that of a whole "
    "wave: leave out burst_start, or use length_ratio 0.8 as public benchmarks do"
)
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a simulation.

    resolved: the question with the objects that it names.  drawn: all requests sent.
    options: engine options, including step corrections from measured runs.
    kept_scale: the user's calibration that gave the step scale, if any.
    speculation, prefill: drafts and prefill pool, if any.
    prefill_scale: the user's calibration of the prefill pool.  balance: of both pools.
    """

    resolved: Resolved
    drawn: Trace
    simulation: Simulation
    options: Options = field(default_factory=Options)
    kept_scale: StepScale | None = None
    speculation: Speculation | None = None
    prefill: Prefill | None = None
    prefill_scale: StepScale | None = None
    balance: Balance | None = None

    @property
    def step_scale(self) -> float:
        """Factor on the priced time of a step."""
        return self.options.step_scale or 1.0

    @property
    def question(self) -> Question:
        """The question of the run."""
        return self.resolved.scenario

    @property
    def tiers(self) -> tuple[CacheTier, ...]:
        """The cache tiers below the device memory of the workers that read prompts."""
        reader = self.prefill.resolved if self.prefill else self.resolved
        return cache_tiers.tiers(self.question, reader.system)

    @property
    def targets(self) -> dict[str, float]:
        """Targets of ttft_s, tpot_s and e2e_s that were given [s], for goodput."""
        return targets_of(self.question)

    @property
    def requests(self) -> int:
        """Number of requests that figures are computed from."""
        return int(self.simulation.counted.sum())

    @property
    def notes(self) -> list[str]:
        """Notes on assumptions and on what was changed, in sentences."""
        notes = [*self.drawn.notes, *self.refusals, *self._too_long, *self._over_budget]
        notes += [*self.resolved.notes, basis(self.resolved)]
        if offered_load.in_waves(self.question):
            notes.insert(0, _WAVES)
        if self.question.kind == "concurrency" and offered_load.pause_alike(self.question):
            notes.insert(0, _IN_STEP)
        if self.question.kind == "rate" and not self.question.ramp_to and self.queue_grows:
            notes.insert(0, _GROWING)
        notes += self._short
        if self.kept_scale:
            notes.append(self.kept_scale.sentence)
        if not self.kept_scale and (said := self._learned):
            notes.append(f"corrected by measured runs near this load: {said}")
        return [*notes, *self._pools, UNVALIDATED]

    @property
    def _over_budget(self) -> list[str]:
        """A sentence where the engine refuses the longest prompt without chunked prefill."""
        sent = self.drawn.requests
        if self.prefill or not len(sent.input_tokens):
            return []
        lengths = float(sent.input_tokens.max()), float(sent.output_tokens.max())
        told = self.options.max_num_batched_tokens or 0.0
        said = over_budget(self.resolved.engine, told, *lengths)
        return [said] if said else []

    @property
    def grows(self) -> bool:
        """Whether the number of open requests grows as long as requests arrive: the rate is not
        sustained.
        """
        return self._grows(self.simulation.e2e_s)

    @property
    def queue_grows(self) -> bool:
        """Whether the number of requests without a first token grows so: it shows a rate that is
        slightly above what is sustained earlier than `grows`.
        """
        return self._grows(self.simulation.ttft_s, 1.0 / min(self.question.burstiness, 1.0))

    def _grows(self, lasting_s: Array, variance: float = 1.0) -> bool:
        """Whether requests that last so long are more in the last quarter of arrivals than in the
        second.

        variance: of their number by chance, relative to that of Poisson arrivals.
        """
        answers = self.simulation
        begin = np.asarray(answers.arrival_s, dtype=float)
        end = np.nan_to_num(begin + lasting_s, nan=np.inf)
        end = np.where(answers.refused, begin, end)
        marks = np.linspace(begin.min(), begin.max(), 5) if begin.size else np.zeros(5)
        if not marks[-1] > marks[0]:
            return False
        before, after = (
            float(np.sum(np.clip(end, low, high) - np.clip(begin, low, high)) / (high - low))
            for low, high in ((marks[1], marks[2]), (marks[3], marks[4]))
        )
        return after - before > max(_GROWTH * before, _CHANCE * math.sqrt(before * variance))

    @property
    def _learned(self) -> str:
        """The step corrections from measured runs in words; "" if there are none."""
        told = self.options
        scales = {"steps": self.step_scale, "prompts in a step": told.prompt_scale}
        said = [f"{name} x {by:.3g}" for name, by in scales.items() if abs(by - 1.0) > _ALIKE]
        if told.wait_s:
            said.append(f"{quantities.seconds(told.wait_s)} of wait before a request is read")
        return ", ".join(said)

    @property
    def _pools(self) -> list[str]:
        """Notes on drafts, on the prefill pool, and on the balance of the pools."""
        draft = self.speculation.draft if self.speculation else None
        drafting = [str(self.speculation), *(draft.notes if draft else ())]
        return [
            *(drafting if self.speculation else ()),
            *(self.prefill.notes if self.prefill else ()),
            *([f"prefill pool: {self.prefill_scale.sentence}"] if self.prefill_scale else ()),
            *([balance_sentence(self.balance)] if self.balance else ()),
        ]

    @property
    def _short(self) -> list[str]:
        """A sentence on a run at a steady rate that is short against its requests."""
        q, answers = self.question, self.simulation
        if q.kind != "rate" or q.day or q.ramp_to or self.queue_grows:
            return []
        ended = answers.e2e_s[answers.ended]
        whole = float(np.ptp(answers.arrival_s))
        if not ended.size or not whole or (lasts := float(ended.mean())) <= _SHORT * whole:
            return []
        enough = math.ceil(len(answers.e2e_s) * lasts / (_SHORT * whole) / 1000.0) * 1000
        return [
            f"requests arrive for {quantities.seconds(whole)} and last "
            f"{quantities.seconds(lasts)}, so the run's start and end lower the mean load; "
            f"--requests {enough} is closer to the steady state"
        ]

    @property
    def _too_long(self) -> list[str]:
        """A sentence on recorded requests longer than the model's largest context."""
        requests, model = self.drawn.requests, self.resolved.model
        long = beyond_positions(model, requests.input_tokens, requests.output_tokens)
        if self.question.kind != "trace" or not np.any(long):
            return []
        return [
            f"{int(np.sum(long)):,} of {len(requests):,} requests are longer than the model's "
            f"{model.max_context:,} positions: an engine would refuse them"
        ]

    @property
    def refusals(self) -> list[str]:
        """A sentence on refused requests, if there were any."""
        refused = self.simulation.counted & self.simulation.refused
        if not refused.any():
            return []
        requests = self.simulation.requests
        largest = (requests.input_tokens + requests.output_tokens)[refused].max()
        return [
            f"{int(refused.sum()):,} of {self.requests:,} requests do not fit the KV cache even "
            f"alone and were refused; the largest has {largest:,.0f} tokens"
        ]


def targets_of(question: Question) -> dict[str, float]:
    """Targets of ttft_s, tpot_s and e2e_s that a question states [s]."""
    named = {name: getattr(question, f"{name[:-2]}_target_s") for name in _TARGETS}
    return {name: seconds for name, seconds in named.items() if seconds}


def targets_in_words(targets: Mapping[str, float]) -> str:
    """Targets as text for a sentence: "TTFT 1.00 s, TPOT 30.0 ms".  targets: of `targets_of`."""
    return ", ".join(f"{name[:-2].upper()} {quantities.seconds(s)}" for name, s in targets.items())


def run(
    resolved: Resolved,
    objects: Mapping[str, Any] = _NOTHING,
    progress: Progress = silent,
    cancelled: Cancel = never,
    *,
    drawn: Trace | None = None,
) -> Run:
    """Draw the offered load of a question and simulate it.

    A closed loop is steady by default: its users start one after the other over the duration of a
    request, and figures are computed from requests between its start and its end.  With
    `burst_start` all users start at once and all requests count.

    Args:
        resolved: the resolved question.
        objects: its trace, lengths, draft_model and prefill_system, if given as objects, see
            `app.question.query.Query`.
        drawn: the requests, if the caller has drawn them already.

    Raises:
        ContextTooLong: requests beyond the model's positions; for a trace this is only a note.
        RidgelineError: as `offered_load.drawn`, `drafting.speculation`, `pools.beside` and
            `genz_core.serving.simulation.simulate`.
        Cancelled: `cancelled` returned True before every request had ended.
    """
    question = resolved.scenario
    check_one_by_one(resolved.model)
    draft_model = objects.get("draft_model", "")
    drafts = speculation(question, resolved.model, draft_model)
    prefill = pools.beside(resolved, objects.get("prefill_system", ""))
    drawn = drawn or offered_load.drawn(question, objects, cancelled)
    if question.kind != "trace":  # its long requests are refused one by one
        lengths = longest(question, question.isl, question.osl), question.osl
        if complaint := context_complaint(resolved.model, *lengths):
            raise ContextTooLong(complaint)
    form = ClosedForm(resolved, drawn, draft_model)
    options, kept = options_of(form)
    kept_of_prefill, pool = None, None
    if prefill:
        theirs, kept_of_prefill = options_of(ClosedForm(prefill.resolved, drawn, draft_model))
        told = bool(kept_of_prefill or question.step_scale)
        wait_s = 0.0 if told else before_a_prompt_s(prefill.resolved, drawn, draft_model)
        # tiers of the workers that read prompts
        options = replace(options, wait_s=wait_s, tiers=())
        pool = prefill.disaggregation(theirs)
    simulation = simulate(
        resolved.model,
        resolved.system,
        drawn.requests,
        question.parallelism,
        resolved.engine,
        concurrency=int(question.concurrency or 0),
        start_s=form.session_s(options.step_scale or 1.0)
        if offered_load.is_steady(question)
        else 0.0,
        counted=offered_load.counted(question),
        options=options,
        replicas=question.replicas,
        routing=cast(Any, question.router),
        front_ends=question.front_ends,
        speculation=drafts,
        disaggregation=pool,
        seed=question.seed,
        progress=lambda ended, of: progress(ended / of, f"{ended:,} of {of:,} requests"),
        cancelled=cancelled,
    )
    ended = int((simulation.ended | simulation.refused).sum())
    if ended < len(drawn.requests):
        raise Cancelled(f"{ended:,} of {len(drawn.requests):,} requests")
    return Run(
        resolved,
        drawn,
        simulation,
        options,
        kept,
        drafts,
        prefill,
        kept_of_prefill,
        matched(pool, resolved, options, drawn.requests, drafts) if pool else None,
    )


def run_setup(
    work: tuple[Setup, Question, Mapping[str, Any]], progress: Progress, cancelled: Cancel
) -> tuple[Setup, Run]:
    """`run` for a setup under another question; returned with the setup, so that a page can match
    it.
    """
    setup, question, objects = work
    resolved = resolve_setup(replace(setup, scenario=question))
    return setup, run(resolved, objects, progress, cancelled)
