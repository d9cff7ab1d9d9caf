"""Laws that hold for every shipped system."""

from itertools import pairwise
from pathlib import Path

import hardware_db
from genz_core.latency.device import Device
from hardware_db import lookup, report, system_files
from hardware_db.sourced_facts import ASSUMPTION
from tests.rules import for_every

SYSTEMS = sorted(system_files.shipped())
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "hardware.md"

#: The list that was promised, under the slugs used here.
_PROMISED = """
v100-sxm2-16gb v100-sxm2-32gb t4 a10 a10g a30 a40 a100-sxm4-40gb a100-sxm4-80gb a100-pcie-40gb
a100-pcie-80gb l4 l40 l40s h100-pcie-80gb h100-sxm5-80gb h100-nvl-94gb h20-96gb h200-sxm-141gb
gh200-96gb gh200-144gb b200-sxm-180gb b300-sxm-288gb gb200-nvl72 gb300-nvl72 rtx-a4000 rtx-a4500
rtx-a5000 rtx-a6000 rtx-4000-ada rtx-4500-ada rtx-5000-ada rtx-6000-ada rtx-pro-6000
rtx-pro-6000-server rtx-3060-8gb rtx-3060-12gb rtx-3060-ti rtx-3070 rtx-3070-ti rtx-3080-10gb
rtx-3080-12gb rtx-3080-ti rtx-3090 rtx-3090-ti rtx-4060 rtx-4060-ti-8gb rtx-4060-ti-16gb rtx-4070
rtx-4070-super rtx-4070-ti rtx-4070-ti-super rtx-4080 rtx-4080-super rtx-4090 rtx-5060
rtx-5060-ti-8gb rtx-5060-ti-16gb rtx-5070 rtx-5070-ti rtx-5080 rtx-5090 gb10 jetson-agx-orin-64gb
jetson-agx-thor mi210 mi250x mi250x-gcd mi300x mi325x mi350x mi355x rx-7900-xtx tpu-v4 tpu-v5e
tpu-v5p tpu-v6e tpu-v7 gaudi2 gaudi3 max-1550 arc-a770-16gb arc-b580 arc-pro-b60 arc-140v-258v
inferentia2 trainium2 m1-7core m1-8core m1-pro-14core m1-pro-16core m1-max-24core m1-max-32core
m1-ultra-48core m1-ultra-64core m2-8core m2-10core m2-pro-16core m2-pro-19core m2-max-30core
m2-max-38core m2-ultra-60core m2-ultra-76core m3-8core m3-10core m3-pro-14core m3-pro-18core
m3-max-30core m3-max-40core m3-ultra-60core m3-ultra-80core m4-8core m4-10core m4-pro-16core
m4-pro-20core m4-max-32core m4-max-40core xeon-8480plus xeon-8592plus xeon-6980p xeon-6767p
epyc-9654 epyc-9965 grace-72core
"""
PROMISED = _PROMISED.split()


def test_every_promised_system_ships():
    assert set(PROMISED) <= set(SYSTEMS)
    assert len(SYSTEMS) >= 185


@for_every(SYSTEMS)
def test_the_file_name_is_the_slug_and_loads(slug):
    assert hardware_db.load(slug).slug == slug


@for_every(SYSTEMS)
def test_every_number_has_a_source_that_can_be_followed(slug):
    form = hardware_db.facts(slug)
    figures = list(form.figures())
    assert len(figures) >= 4
    for path, fact in figures:
        source = form.sources[fact.source]
        assert source.url or source.seen_in or fact.source == ASSUMPTION, path
        if fact.kind == "measured":
            assert source.retrieved, path


@for_every(SYSTEMS)
def test_what_nobody_states_is_said_to_be_assumed(slug):
    form = hardware_db.facts(slug)
    for path, fact in form.figures():
        assert fact.source != ASSUMPTION or fact.kind == "assumed", path
    system = hardware_db.load(slug)
    typical = Device.of(system).assumed
    stated = sum(fact.kind == "assumed" for _, fact in form.figures())
    assert system.assumptions[stated:] == typical
    left_out = (system.clock_hz, system.l2_bytes).count(None)
    assert len(typical) - left_out == (system.kind in ("tpu", "npu") or not system.compute_units)


#: Memory made only of SRAM is faster than the arithmetic needs; a device for prompts has little
#: bandwidth.
RIDGES = {"groq-3-lpu": (1, 15), "cerebras-wse-3": (0.1, 15), "rubin-cpx": (1000, 3000)}


@for_every(SYSTEMS)
def test_the_ridge_point_is_that_of_a_real_machine(slug):
    system = hardware_db.load(slug)
    peak = max(system.peak_flops_per_s.get(kind, 0.0) for kind in ("fp16", "bf16", "fp32"))
    least, most = RIDGES.get(slug, (15, 1000))
    assert least < peak / system.memory_bytes_per_s < most


@for_every(SYSTEMS)
def test_narrower_formats_are_no_slower(slug):
    peaks = hardware_db.load(slug).peak_flops_per_s
    wide = peaks.get("bf16", peaks.get("fp16", 0.0))
    # Blackwell Ultra has little integer and double-precision arithmetic by design.
    narrow = ("fp8", "fp4") if slug in ("b300-sxm-288gb", "gb300-nvl72") else ("fp8", "int8", "fp4")
    for name in narrow:
        assert peaks.get(name, wide) >= wide, name
    assert peaks.get("fp32", 0.0) <= max(peaks.values())


@for_every(SYSTEMS)
def test_tiers_get_wider_and_slower_outwards(slug):
    links = hardware_db.load(slug).links
    for near, far in pairwise(links):
        assert near.bytes_per_s >= far.bytes_per_s
        assert near.latency_s <= far.latency_s
        assert near.domain >= 2
        assert far.domain == 0 or far.domain > near.domain
    assert all(link.domain > 0 for link in links[:-1])


@for_every([slug for slug in SYSTEMS if slug.endswith("gb")])
def test_the_size_in_the_slug_is_the_size_of_the_memory(slug):
    printed = int(slug.rpartition("-")[2].removesuffix("gb"))
    assert printed * 1e9 * 0.99 <= hardware_db.load(slug).memory_bytes <= printed * 2**30


@for_every([slug for slug in SYSTEMS if slug.endswith("core")])
def test_the_cores_in_the_slug_are_the_units(slug):
    assert hardware_db.load(slug).compute_units == int(slug.rpartition("-")[2].removesuffix("core"))


def test_no_two_systems_share_a_name():
    owner = {}
    for slug in SYSTEMS:
        form = hardware_db.facts(slug)
        for name in (form.id, form.name, *form.aliases):
            assert owner.setdefault(lookup.fold(name), slug) == slug, name


@for_every(SYSTEMS, by_day=60)
def test_every_name_of_a_system_leads_to_it(slug):
    form = hardware_db.facts(slug)
    for name in (form.id, form.name, *form.aliases):
        for spelling in (name, name.upper(), name.replace("-", "_"), f"{form.vendor} {name}"):
            assert system_files.find(spelling).id == slug, spelling


def test_systems_that_share_silicon_share_a_family():
    families = {slug: hardware_db.load(slug).family for slug in SYSTEMS}
    for family, slugs in {
        "hopper": "h100-sxm5-80gb h100-pcie-80gb h200-sxm-141gb h20-96gb h800-sxm5-80gb gh200-96gb",
        "blackwell": "b200-sxm-180gb b300-sxm-288gb gb200-nvl72 gb300-nvl72",
        "ampere-dc": "a100-sxm4-40gb a100-pcie-80gb a30",
        "ampere": "a10 a40 rtx-3080-10gb rtx-a6000",
        "ada": "l4 l40 l40s rtx-4090 rtx-6000-ada",
        "blackwell-rtx": "rtx-5090 rtx-pro-6000-server",
        "cdna3": "mi300x mi325x",
    }.items():
        assert {families[slug] for slug in slugs.split()} == {family}


def test_the_documentation_page_is_the_database():
    assert DOCUMENTATION.read_text(encoding="utf-8") == report.page()


def test_the_page_lists_every_figure_that_is_not_confirmed():
    page = report.page()
    assert "| `xeon-6767p` |" in page
    listed = page.partition("## Not confirmed")[2].partition("## Assumed")[0]
    for slug in SYSTEMS:
        form = hardware_db.facts(slug)
        unconfirmed = [
            f for _, f in form.figures() if f.kind == "assumed" and f.source != ASSUMPTION
        ]
        assert (f"`{slug}`" in listed) == bool(unconfirmed)
