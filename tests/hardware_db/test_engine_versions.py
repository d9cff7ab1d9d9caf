"""Versions of engines: notations, and the era and range that each belongs to."""

import pytest

import hardware_db
from hardware_db.engine_versions import Era, Version, era_of, in_name, is_beyond

OLD = Era(id="old", until="0.5", until_month="2024-09", changed="the host", source="notes")
MIDDLE = Era(id="middle", until="0.7", until_month="2025-02", changed="a process", source="notes")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("vLLM 0.6.3", "0.6.3"),
        ("vllm v0.9.0", "0.9.0"),
        ("vllm@0.12.0", "0.12.0"),
        ("llama.cpp b6918", "b6918"),
        ("vllm 2024-05", "2024-05"),
        ("SGLang 0.4.6.post1", "0.4.6.post1"),
        ("HF Transformers 4.35 [fp16+fa2]", "4.35"),
        ("llama.cpp (llama-bench)", ""),
        ("optimum-habana / PyTorch 2.4", ""),
        ("hf-compile", ""),
    ],
)
def test_a_name_may_carry_a_version(name, version):
    assert in_name(name) == version


@pytest.mark.parametrize(
    ("version", "era"),
    [
        ("0.4.2", "old"),
        ("0.5.5", "old"),
        ("0.6", "middle"),
        ("0.7.3", "middle"),
        ("0.8.0rc1", None),
        ("2024-09", "old"),
        ("2024-10", "middle"),
        ("nightly-dev-20260402-d7256eb6", None),
        ("nightly-dev", None),
        ("", None),
    ],
)
def test_a_version_belongs_to_the_first_era_that_reaches_it(version, era):
    found = era_of([OLD, MIDDLE], version)
    assert (found.id if found else None) == era


def test_releases_and_builds_are_ordered_by_their_numbers():
    written = ["b2700", "b6918", "b10000"]
    assert sorted(written, key=lambda text: Version.of(text).numbers) == written
    assert Version.of("1.0.0rc3").numbers == (1, 0, 0)


@pytest.mark.parametrize(
    ("version", "beyond"),
    [
        ("0.8", True),
        ("0.9", False),
        ("0.19.1", False),
        ("0.20", True),
        ("2026-01", False),
        ("", False),
    ],
)
def test_a_release_beyond_those_measured_is_told(version, beyond):
    assert is_beyond("0.9 - 0.19", version) is beyond


def test_a_release_that_nobody_measured_is_said_and_has_wider_intervals():
    known, unknown = hardware_db.load_engine("vllm 0.19"), hardware_db.load_engine("vllm 9.1")
    assert (known.unmeasured, unknown.unmeasured) == (False, True)


@pytest.mark.parametrize("name", hardware_db.engine_names())
def test_eras_of_an_engine_stand_in_their_order_and_name_their_source(name):
    record = hardware_db.engine_facts(name)
    ends = [Version.of(era.until).numbers for era in record.eras]
    months = [Version.of(era.until_month).month for era in record.eras]
    assert ends == sorted(ends) and months == sorted(months)
    assert all(ends) and all(months)
    assert {era.source for era in record.eras} <= set(record.sources)
