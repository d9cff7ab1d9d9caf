"""One rule over many subjects as one test, which lists every subject that breaks the rule."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def for_every(
    subjects: Iterable[Any] | Callable[[], Iterable[Any]],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every subject, which is its first argument (of a tuple: its first ones).

    For cheap rules over many subjects, where a case each costs more than the rule.  A function in
    place of the subjects is called when the test runs.  Fixtures follow the subject, one for all.
    Fails where there are no subjects.  No rule may skip: it would skip all subjects.
    """

    def decorate(rule: Callable[..., None]) -> Callable[..., None]:
        listed = None if callable(subjects) else list(subjects)
        taken = len(listed[0]) if listed and isinstance(listed[0], tuple) else 1

        @functools.wraps(rule)
        def test(**fixtures: Any) -> None:
            every = list(subjects()) if callable(subjects) else listed
            assert every, "no subjects"
            broken = []
            for subject in every:
                try:
                    rule(*(subject if isinstance(subject, tuple) else (subject,)), **fixtures)
                except (AssertionError, pytest.fail.Exception) as error:
                    broken.append(f"{subject}: {error}")
                except Exception as error:
                    error.add_note(f"with {subject}")
                    raise
            if broken:
                pytest.fail("\n".join([f"{len(broken)} of {len(every)}", *broken]), pytrace=False)

        parameters = list(inspect.signature(rule).parameters.values())
        test.__signature__ = inspect.Signature(parameters[taken:])  # type: ignore[attr-defined]
        return test

    return decorate
