"""Typed patterns: matches, refusals, and time limits."""

import re
import time

import pytest

from genz_core.errors import InvalidValue
from profilers.operators import linear_regex
from profilers.operators.attribution import DEFAULT_PHASES
from tests.rules import for_every


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("prefill|extend", "step[EXTEND bs=15]", True),
        (r"generation_[1-9]\d*", "context_0_generation_32", True),
        ("^decode$", "decode_step", False),
        ("préfill", "PRÉFILL", True),
        ("b", "\ud800ab", True),
    ],
)
def test_a_pattern_is_searched_without_case(pattern: str, name: str, found: bool):
    assert linear_regex.compiled(pattern).found_in(name) is found


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "not a regular expression"),
        ("decode(?!r)", "uses lookahead or lookbehind"),
        ("(?<!pro)filler", "uses lookahead or lookbehind"),
        (r"(a)\1", "uses a back-reference"),
        ("(?P<n>a)(?P=n)", "uses a back-reference"),
        ("(?:x{0,30}){0,30}!", "is too large"),
        ("x" * 501, "501 characters"),
    ],
)
def test_what_linear_time_does_not_allow_is_refused_in_a_sentence(pattern: str, words: str):
    with pytest.raises(InvalidValue, match=words):
        linear_regex.compiled(pattern)


@for_every(["(.*)" * 20 + "!", "(x+x+)+y", "(a|b|ab)*c", "(?:a.{0,30}x){2}!"])
def test_no_pattern_takes_long(pattern: str):
    names = [f"{'xab_' * 60}{number}" for number in range(1000)]
    started = time.perf_counter()
    assert not any(linear_regex.compiled(pattern).found_in(name) for name in names)
    assert time.perf_counter() - started < 1.0


#: The default patterns in the syntax of Python's engine.
_WITH_LOOKAROUND = (
    r"context_0(?!\d).*generation_[1-9]",
    r"context_[1-9].*generation_0(?!\d)",
    r"context_[1-9].*generation_[1-9]|step\[mixed",
    r"[1-9]\d* ctx reqs.*[, ][1-9]\d* gen reqs",
    r"[1-9]\d* ctx reqs",
    r"prefill|extend|context|prompt",
    r"decode|generation|(?<!profiler)(?<!\.)step",
)


@pytest.mark.parametrize(
    "name",
    [
        "ProfilerStep#6", "rofilerstep", "profilestep", "SchedulerStep", "rstep", "step",
        "optimizer.step", "a.step step", "context_0generation_1", "context_01_generation_2",
        "context_0(a)_generation_2", "context_3_generation_0", "context_3_generation_05",
        "context_3_generation_0(0)", "context_1_generation_1",
    ],
)  # fmt: skip
def test_the_default_patterns_say_what_look_around_would(name: str):
    for pattern, python in zip(DEFAULT_PHASES, _WITH_LOOKAROUND, strict=True):
        assert pattern.compiled().found_in(name) is bool(re.search(python, name, re.IGNORECASE))
