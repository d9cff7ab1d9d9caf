"""Figures of the main systems, copied here from the vendors' documents, not from the database.

A row is (slug, 16-bit dense TFLOP/s, 8-bit dense TFLOP/s or None, GB as printed, GB/s, W or None,
document).  The test compares within 1 %, memory between decimal and binary gigabytes.
"""

import pytest

import hardware_db
from tests.rules import for_every

DATASHEETS = [
    ("h100-sxm5-80gb", 989.4, 1978.9, 80, 3350, 700, "H100 datasheet, 1,979 and 3,958 halved"),
    ("h100-pcie-80gb", 756.5, 1513, 80, 2000, 350, "H100 PCIe datasheet, 1,513 and 3,026 halved"),
    ("h100-nvl-94gb", 835.5, 1671, 94, 3900, 400, "H100 NVL datasheet, 1,671 and 3,341 halved"),
    ("h200-sxm-141gb", 989.4, 1978.9, 141, 4800, 700, "H200 datasheet, 1,979 and 3,958 halved"),
    ("h20-96gb", 148, 296, 96, 4000, None, "H20 as quoted by resellers"),
    ("a100-sxm4-80gb", 312, 624, 80, 2039, 400, "A100 datasheet"),
    ("a100-sxm4-40gb", 312, 624, 40, 1555, 400, "A100 datasheet"),
    ("a100-pcie-80gb", 312, 624, 80, 1935, 300, "A100 datasheet"),
    ("a30", 165, 330, 24, 933, 165, "A30 datasheet"),
    ("a10", 125, 250, 24, 600, 150, "A10 datasheet"),
    ("a40", 149.7, 299.3, 48, 696, 300, "A40 datasheet"),
    ("l4", 121, 242.5, 24, 300, 72, "L4 datasheet, 242 and 485 halved"),
    ("l40s", 362.05, 733, 48, 864, 350, "L40S datasheet"),
    ("l40", 181.05, 362, 48, 864, 300, "L40 datasheet"),
    ("t4", 65, 130, 16, 320, 70, "T4 datasheet"),
    ("b200-sxm-180gb", 2250, 4500, 180, 7700, 1000, "HGX B200: 36 PFLOP/s sparse, 62 TB/s for 8"),
    ("b300-sxm-288gb", 2250, 4500, 288, 7750, 1100, "HGX B300: 36 PFLOP/s sparse, 62 TB/s for 8"),
    ("gb200-nvl72", 2500, 5000, 186, 8000, 1200, "GB200 NVL72: 360 PFLOP/s sparse for 72"),
    ("gb300-nvl72", 2500, 5000, 279, 8000, 1400, "GB300 NVL72: 360 PFLOP/s sparse for 72"),
    ("rtx-3090", 71, 284, 24, 936, 350, "GA102 whitepaper, fp32 accumulate, INT8 tensor"),
    ("rtx-4090", 165.2, 330.3, 24, 1008, 450, "Ada whitepaper, fp32 accumulate"),
    ("rtx-5090", 209.5, 419, 32, 1792, 575, "RTX Blackwell whitepaper, fp32 accumulate"),
    ("rtx-6000-ada", 364.2, 728.5, 48, 960, 300, "RTX 6000 Ada datasheet, 1,457 fp8 sparse halved"),
    ("rtx-a6000", 154.8, 309.7, 48, 768, 300, "RTX A6000 datasheet, 309.7 sparse halved"),
    ("mi300x", 1307.4, 2614.9, 192, 5300, 750, "MI300X data sheet"),
    ("mi325x", 1307.4, 2614.9, 256, 6000, 1000, "MI325X data sheet"),
    ("mi355x", 2516.6, 5033.2, 288, 8000, 1400, "MI355X data sheet"),
    ("mi250x", 383, 383, 128, 3277, 560, "MI250X data sheet"),
    ("tpu-v5e", 197, 393, 16, 819, None, "Cloud TPU documentation"),
    ("tpu-v6e", 918, None, 32, 1638, None, "Cloud TPU documentation"),
    ("tpu-v7", 2307, 4614, 192, 7380, None, "Cloud TPU documentation"),
    ("gaudi2", 432, 865, 96, 2450, 600, "Gaudi 2 white paper"),
    ("gaudi3", 1835, 1835, 128, 3700, 900, "Gaudi 3 white paper"),
    ("mi300a", 980.6, 1961, 128, 5300, None, "MI300A data sheet"),
    ("arc-pro-b70", 183.5, 367, 32, 608, 230, "Arc Pro B70: 367 int8 TOP/s"),
    ("rx-9060-xt-16gb", 102.6, 205, 16, 320, 160, "RX 9060 XT: 821 sparse int4 TOP/s, an eighth"),
    ("rtx-a2000-12gb", 31.95, 63.9, 12, 288, 70, "RTX A2000 datasheet, 63.9 sparse halved"),
    ("rtx-pro-4000-sff", 95.84, 191.7, 24, 432, 70, "RTX PRO 4000 SFF: 770 sparse fp4 TOP/s"),
    ("tpu-v3", 123, None, 32, 900, None, "Cloud TPU documentation"),
    ("rngd", 256, 512, 48, 1500, 180, "FuriosaAI documentation"),
    ("wormhole-n300", 131, 466, 24, 576, 300, "Tenstorrent documentation"),
    ("cloud-ai100-ultra", 290, 870, 128, 548, 150, "Qualcomm Cloud AI SDK documentation"),
    ("mtia-v2", 177, 354, 128, 204.8, 90, "MTIA v2: 354 and 708 sparse halved"),
    ("trainium2", 667, 1299, 96, 2900, None, "AWS Neuron documentation"),
]


@for_every(DATASHEETS)
def test_the_figures_are_those_of_the_document(
    slug, half, eight, gigabytes, bandwidth, watts, document
):
    system = hardware_db.load(slug)
    peaks = system.peak_flops_per_s
    assert peaks.get("bf16", peaks.get("fp16")) == pytest.approx(half * 1e12, rel=0.01), document
    if eight is not None:
        assert peaks.get("fp8", peaks.get("int8")) == pytest.approx(eight * 1e12, rel=0.01)
    assert gigabytes * 0.999e9 <= system.memory_bytes <= gigabytes * 2**30
    assert system.memory_bytes_per_s == pytest.approx(bandwidth * 1e9, rel=0.01)
    if watts is not None:
        assert system.tdp_w == watts


@pytest.mark.parametrize(
    "slug, gigabytes_per_s, domain, document",
    [
        ("a100-sxm4-80gb", 300, 8, "NVLink 3: 600 GB/s for both directions"),
        ("h100-sxm5-80gb", 450, 8, "NVLink 4: 900 GB/s for both directions"),
        ("h800-sxm5-80gb", 200, 8, "reduced to 400 GB/s for both directions"),
        ("b200-sxm-180gb", 900, 8, "NVLink 5: 1.8 TB/s for both directions"),
        ("gb200-nvl72", 900, 72, "NVLink 5: 1.8 TB/s for both directions, 72 GPUs in a rack"),
        ("mi300x", 448, 8, "7 links of 128 GB/s for both directions"),
        ("gaudi3", 525, 8, "21 of 24 ports of 200 Gb/s"),
        ("tpu-v5e", 200, 256, "4 links of 50 GB/s, one way"),
        ("tpu-v5p", 600, 8960, "6 links of 100 GB/s, one way"),
        ("rtx-4090", 31.5, 4, "no NVLink: PCIe 4.0 x16"),
        ("rtx-3090", 56.25, 2, "NVLink bridge: 112.5 GB/s for both directions"),
    ],
)
def test_the_first_tier_is_that_of_the_document(slug, gigabytes_per_s, domain, document):
    link = hardware_db.load(slug).links[0]
    assert link.bytes_per_s == pytest.approx(gigabytes_per_s * 1e9, rel=0.01), document
    assert link.domain == domain


def test_the_h100_roofline_is_the_one_everybody_quotes():
    h100 = hardware_db.load("h100")
    assert h100.peak("bf16") / h100.memory_bytes_per_s == pytest.approx(295, abs=1)


def test_what_a_datasheet_does_not_state_is_absent():
    assert "fp8" not in hardware_db.load("a100").peak_flops_per_s
    assert "fp4" not in hardware_db.load("h100").peak_flops_per_s
    assert hardware_db.facts("tpu-v5e").tdp_w.kind == "assumed"
    assert hardware_db.load("m2-ultra-76core").links == ()
