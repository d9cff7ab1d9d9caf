"""This machine as a system document: peaks measured, the rest as the system states it."""

import datetime

import hardware_db
from profilers.collect.machine import Cpu
from profilers.collect.machine_document import SLUG, system_document
from profilers.collect.microbenchmarks import CaseTimings, Suite

CPU = Cpu("AMD EPYC 9654 96-Core Processor", 8, 2.4e9, 32 * 2**20, 64 * 2**30)


def suite(threads: int = 8) -> Suite:
    """A product of 2 GFLOP in 10 ms, a slower one, and a stream of 1 GB in 20 ms."""
    results = (
        CaseTimings("gemm", "bf16", {"m": 1}, 2e9, 1.0, (9e-3, 10e-3, 11e-3)),
        CaseTimings("gemm", "bf16", {"m": 2}, 1e9, 1.0, (10e-3, 10e-3, 10e-3)),
        CaseTimings("read", "default", {"bytes": 1e9}, 0.0, 1e9, (20e-3, 20e-3, 20e-3)),
    )
    return Suite(results, {"threads": threads})


def document(threads: int = 8) -> dict:
    return system_document(CPU, suite(threads), datetime.date(2026, 1, 2))


def test_peaks_are_the_best_rates_of_the_suite():
    peak, rate = document()["peak_dense_tflops"]["bf16"], document()["memory_gb_per_s"]
    assert (peak["value"], rate["value"]) == (0.2, 50.0)
    assert peak["kind"] == rate["kind"] == "measured"
    assert "8 threads, 2026-01-02; spread of the repeats 0%" in peak["note"]


def test_a_peak_is_that_of_attention_where_its_products_are_faster():
    found = suite()
    faster = CaseTimings("prefill_attention", "bf16/bf16", {}, 3e9, 1.0, (10e-3, 10e-3, 10e-3))
    both = Suite((*found.results, faster), found.facts)
    assert both.peak_flops_per_s == {"bf16": 3e11}


def test_memory_cache_and_clock_are_as_the_system_states_them():
    stated = {key: document()[key]["value"] for key in ("memory_gib", "l2_mib", "clock_mhz")}
    assert stated == {"memory_gib": 64.0, "l2_mib": 32.0, "clock_mhz": 2400.0}
    assert document()["vendor"] == "AMD" and document()["id"] == SLUG


def test_units_are_the_threads_that_ran_and_a_note_says_of_how_many():
    assert document(8)["units"]["value"] == 8 and "notes" not in document(8)
    assert document(2)["units"]["value"] == 2
    assert document(2)["notes"] == ["measured with 2 of 8 cores"]


def test_the_document_is_a_system_like_any_other():
    system = hardware_db.load(document())
    assert system.peak_flops_per_s["bf16"] == 0.2e12
    assert (system.memory_bytes_per_s, system.compute_units) == (50e9, 8)
