"""The load for the figures of a decision: a static batch, open requests or a rate."""

from dataclasses import replace

from app.question.question import Question
from app.wording import quantities
from genz_core.limits import short


def under_load(question: Question) -> Question:
    """The question under load: its own, or its batch as the users of a closed loop."""
    if question.kind != "batch":
        return question
    return replace(question, batch=1, concurrency=question.batch)


def load_words(question: Question) -> str:
    """The load in words: "batch 8", "64 users in a closed loop", "3.2 requests/s", "a trace"."""
    if question.kind == "batch":
        return f"batch {question.batch:,}"
    if question.kind == "trace":
        return "a trace"
    if question.rate:
        if question.ramp_to:
            last = quantities.request_rate(question.ramp_to)
            return f"{short(question.rate)} climbing to {last}"
        return quantities.request_rate(question.rate)
    users = int(question.concurrency or 0)
    return f"{users:,} user{'s' if users > 1 else ''} in a closed loop"
