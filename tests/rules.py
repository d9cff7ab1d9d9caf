"""One rule over many subjects as one test, which lists every subject that breaks the rule."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests import draws

_BOTH = pytest.mark.parametrize(
    "whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["by day", "whole"]
)


def for_every(
    subjects: Iterable[Any] | Callable[[], Iterable[Any]],
    by_day: int | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every subject, which is its first argument (for tuples: its first ones).

    For cheap rules over many subjects, where a case for each would cost more than the rule.  A
    function instead of the subjects is called when the test runs.  Fixtures follow the subject, one
    for all. Fails if there are no subjects.  No rule may skip, because it would skip all subjects.

    by_day: this number of the subjects, evenly spread, is a test that runs by day; all of them are
    a second case of the test, which is slow.
    """

    def decorate(rule: Callable[..., None]) -> Callable[..., None]:
        listed = None if callable(subjects) else list(subjects)
        taken = len(listed[0]) if listed and isinstance(listed[0], tuple) else 1

        @functools.wraps(rule)
        def test(**fixtures: Any) -> None:
            every = list(subjects()) if callable(subjects) else listed
            assert every, "no subjects"
            if by_day is not None and not fixtures.pop("whole"):
                every = draws.spread(every, by_day)
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
        parameters = parameters[taken:]
        if by_day is not None:
            whole = inspect.Parameter("whole", inspect.Parameter.KEYWORD_ONLY)
            parameters.append(whole)
        test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return test if by_day is None else _BOTH(test)

    return decorate
