"""The load for the figures of a decision: a static batch, open requests or a rate."""

from dataclasses import replace

from app.question.question import Question


def under_load(question: Question) -> Question:
    """The question under load: its own, or its batch as the users of a closed loop."""
    if question.kind != "batch":
        return question
    return replace(question, batch=1, concurrency=question.batch)
