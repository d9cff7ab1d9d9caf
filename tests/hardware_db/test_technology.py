"""Figures of technologies: memory by generation and stacks, and a site's power besides devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

import hardware_db
from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue, UnknownEngine
from genz_core.serving.cache_tiers import TIERS
from hardware_db.engine_files import engine_facts, era_facts, prior_engine
from hardware_db.memory_stacks import generations, memory_bandwidth
from hardware_db.site_power import site_power
from hardware_db.sourced_facts import Kind
from hardware_db.tables import folder, table
from tests.hardware_db.system_documents import BOARD, refused
from tests.rules import for_every

KINDS = get_args(Kind)


def test_equal_texts_of_a_table_are_one_object():
    texts = [text for row in table("engines", "runs") for text in row.values()]
    assert len({id(text) for text in texts}) == len(set(texts)) < len(texts)


@for_every(sorted(folder("technology").glob("*.csv")))
def test_every_figure_of_a_table_has_a_kind_and_a_source(path: Path):
    rows = table("technology", path.stem)
    assert rows
    for row in rows:
        assert row["kind"] in KINDS and row["source"], row
        assert row["retrieved"] or row["kind"] == "assumed", row


def test_a_stack_has_the_rate_of_its_pins():
    """HBM3: 1,024 pins of 6.4 Gbit/s are 819.2 GB/s; eight stacks of HBM3E at 9.2 are 9.42 TB/s."""
    assert memory_bandwidth("HBM3", 1) == pytest.approx(819.2e9)
    assert memory_bandwidth("HBM3E", 8) == pytest.approx(8 * 1177.6e9)
    assert all(entry.source for entry in generations().values())


def test_the_rent_of_a_cache_tier_follows_from_its_source():
    """Two instance types that differ by 16 GiB; one that holds 32 GiB and does nothing else."""
    rows = {(row["tier"], row["figure"]): row for row in table("technology", "cache_tiers")}
    rent = {tier: float(rows[tier, "usd_per_gib_hour"]["value"]) for tier in TIERS}
    assert rent["host"] == pytest.approx((0.2646 - 0.2016) / 16)
    assert rent["remote"] == pytest.approx(0.2646 / 32)
    assert rent["disk"] == pytest.approx(0.08 / 730, rel=1e-3)


@pytest.mark.parametrize(
    ("generation", "stacks", "said"),
    [
        ("HBM9", 1, "memory 'HBM9': choose HBM2E"),
        ("HBM3", 0, "stacks = 0"),
        ("HBM3", 65, "1 to 64"),
    ],
)
def test_memory_that_nobody_makes_is_refused(generation, stacks, said):
    with pytest.raises(InvalidValue, match=said):
        memory_bandwidth(generation, stacks)


def test_a_server_whose_maximum_is_known_has_its_own_host():
    """DGX H100: at most 10.2 kW less eight times 700 W, divided by eight."""
    known = site_power(hardware_db.load("h100"))
    assert known.host_w.value == (10_200 - 8 * 700) / 8
    assert str(known.host_w).startswith("derived: ")


def test_others_have_the_estimated_share_of_their_power():
    system = hardware_db.load("l40s")
    estimated = site_power(system)
    assert estimated.host_w.value == pytest.approx(0.5 * system.tdp_w)
    assert estimated.host_w.kind == "assumed" and "0.5 x 350 W" in estimated.host_w.note
    assert site_power(replace(system, tdp_w=None)).host_w.value == 0.0


def test_a_processor_is_its_own_host_and_a_device_without_a_network_has_no_share_of_one():
    system = replace(hardware_db.load("l40s"), kind="cpu", links=())
    alone = site_power(system)
    assert (alone.host_w.value, alone.network_w.value) == (0.0, 0.0)
    assert alone.pue.value > 1.0


def test_what_is_known_of_an_engine_before_any_fit_and_in_older_eras():
    prior, shipped = prior_engine("vllm"), engine_facts("vllm").profile()
    assert prior.host_step_s == 1e-3 != shipped.host_step_s
    assert prior.compute_efficiency == EngineProfile().compute_efficiency
    assert prior.max_sequences == shipped.max_sequences
    with pytest.raises(UnknownEngine):
        prior_engine("no such engine")
    assert era_facts("hf", "eager-attention").until == "4.35"


def topology(**changed):
    sheet = {"form": "switch", "source": "sheet", "kind": "datasheet"}
    return {**sheet, **changed}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"form": "torus"}, "only a torus has a shape"),
        ({"shape": [2, 2]}, "only a torus has a shape"),
        ({"form": "torus", "shape": [2, 3]}, "has 6 devices, domain 8; make them agree"),
        ({"oversubscription": 4.0}, "give pod: the devices"),
        ({"form": "dragonfly"}, "give pod: the devices"),
        ({"kind": "assumed"}, "needs a note that says how"),
        ({"source": "hearsay"}, "source 'hearsay' of its topology is not in sources"),
    ],
)
def test_a_topology_that_cannot_be_is_refused_in_a_sentence(changed, said):
    figure = {"source": "sheet", "kind": "datasheet"}
    tier = {
        "name": "wire", "gb_per_s": {"value": 50, **figure}, "latency_us": {"value": 1, **figure},
        "domain": {"value": 8, **figure}, "topology": topology(**changed),
    }  # fmt: skip
    assert said in refused({**BOARD, "links": {"scale_up": tier}})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"l2_mb": 1, "l2_mib": 1}, "give l2_mb or l2_mib, not both"),
        ({"memory_gib": 24}, "give either memory_gb (1e9 bytes) or memory_gib"),
    ],
)
def test_a_size_is_given_in_one_unit(more, said):
    figures = {
        name: {"value": value, "source": "sheet", "kind": "datasheet"}
        for name, value in more.items()
    }
    assert said in refused({**BOARD, **figures})
