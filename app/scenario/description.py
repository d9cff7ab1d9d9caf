"""A setup in words: the facts that distinguish one scenario from another."""

from app.question.question import Question
from app.scenario.scenario import FACTORS
from app.scenario.setup import Setup
from app.wording import quantities
from genz_core.limits import short

#: The work that runs during the exchange of tokens, in words.
BESIDE = {"none": "nothing", "shared_experts": "shared experts", "two_batch": "two halves"}


def load_words(question: Question) -> str:
    """A load in words: "batch 8", "64 users", "3.2 requests/s", "a trace"."""
    if question.kind == "trace":
        return "a trace"
    if question.rate and question.ramp_to:
        return f"{short(question.rate)} climbing to {quantities.request_rate(question.ramp_to)}"
    return quantities.load(question.kind, getattr(question, question.kind))


def setup_words(setup: Setup) -> list[str]:
    """Model, system, degrees, engine, formats, workload and changes of a setup, plain texts."""
    s = setup.scenario
    degrees = " ".join(
        f"{name.upper()}{getattr(s, name)}"
        for name in ("tp", "pp", "dp", "ep")
        if getattr(s, name) > 1
    )
    formats = {
        "weights": s.weights, "experts": s.moe_weights, "cache": s.kv,
        "activations": s.activations, "arithmetic": s.compute,
    }  # fmt: skip
    bits = ", ".join(f"{value} {name}" for name, value in formats.items() if value)
    engine = " ".join(filter(None, (s.engine, s.engine_version)))
    load = f"{load_words(s)}, {quantities.count(s.isl)}/{quantities.count(s.osl)}"
    name = s.model.rpartition("/")[2]
    return [
        part for part in (name, s.system, degrees, engine, bits, load, *_changes(setup)) if part
    ]


def _changes(setup: Setup) -> list[str]:
    """Settings that differ from the usual: factors, rent, offload, how experts work."""
    s = setup.scenario
    changed = [f"{name} ×{getattr(s, name):g}" for name in FACTORS if getattr(s, name) != 1]
    if setup.if_fitted:
        changed.append("if it fitted")
    if (s.ep or 1) > 1 and s.expert_imbalance > 1:
        changed.append(f"busiest rank ×{s.expert_imbalance:g}")
    if s.redundant_experts:
        changed.append(f"{s.redundant_experts} redundant experts")
    if s.overlap != "none":
        changed.append(f"{BESIDE[s.overlap]} during the all-to-all")
    if s.images:
        changed.append(f"{s.images} images {s.image_size}".strip())
    if s.audio_seconds:
        changed.append(f"{s.audio_seconds:g} s of audio")
    if s.offload:
        over = "placed over both memories"
        changed.append(over if s.offload == "levels" else f"{s.offload} offloaded")
    if s.price:
        changed.append(f"rent {s.price if isinstance(s.price, str) else dict(s.price)}")
    return changed
