"""Slices of Multi-Instance GPUs by the names that drivers print."""

import pytest

import hardware_db
from genz_core.errors import UnknownSystem


@pytest.mark.parametrize(
    ("name", "slug", "sm_share", "memory_share", "gigabytes"),
    [  # fractions from NVIDIA's MIG User Guide
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-sxm4-40gb", 1 / 7, 1 / 8, 5),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "a100-sxm4-40gb", 3 / 7, 4 / 8, 20),
        ("NVIDIA A100-SXM4-80GB MIG 2g.20gb", "a100-sxm4-80gb", 2 / 7, 2 / 8, 20),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "h100-sxm5-80gb", 1 / 7, 1 / 8, 10),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "h100-sxm5-80gb", 1 / 7, 1 / 8, 10),
        ("NVIDIA H100 80GB HBM3 MIG 1g.20gb", "h100-sxm5-80gb", 1 / 7, 2 / 8, 20),
        ("NVIDIA H100 80GB HBM3 MIG 4g.40gb", "h100-sxm5-80gb", 4 / 7, 4 / 8, 40),
        ("NVIDIA H200 MIG 3g.71gb", "h200-sxm-141gb", 3 / 7, 4 / 8, 71),
        ("NVIDIA A30 MIG 1g.6gb", "a30", 1 / 4, 2 / 8, 6),
    ],
)
def test_a_slice_has_its_shares_of_the_device(name, slug, sm_share, memory_share, gigabytes):
    whole, part = hardware_db.load(slug), hardware_db.load(name)
    assert part.peak("bf16") == pytest.approx(whole.peak("bf16") * sm_share)
    assert part.memory_bytes_per_s == pytest.approx(whole.memory_bytes_per_s * memory_share)
    assert part.memory_bytes == pytest.approx(gigabytes * 1e9)
    assert part.compute_units == int(whole.compute_units * sm_share)
    assert (part.slug, part.links, part.tdp_w) == (whole.slug, (), None)


def test_a_slice_says_what_it_is_and_that_nobody_measured_it():
    part = hardware_db.load("NVIDIA H100 80GB HBM3 MIG 1g.10gb")
    assert part.name == "NVIDIA H100 SXM5 80GB, MIG 1g.10gb"
    assert part.assumptions[-1] == ("a MIG slice: 1/7 of the SMs, 1/8 of memory and its bandwidth")
    assert hardware_db.is_hypothetical(part)


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3 MIG 9g.10gb", "NVIDIA A30 MIG 1g.900gb"])
def test_a_slice_that_no_device_has_is_refused(name):
    with pytest.raises(UnknownSystem):
        hardware_db.load(name)
