"""From device names as people and programs write them to slugs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardware_db
from genz_core.errors import UnknownSystem
from hardware_db import lookup, system_files
from tests.rules import for_every

#: Names printed by nvidia-smi, torch.cuda.get_device_name, rocm-smi, hl-smi and lscpu.
PRINTED = {
    "NVIDIA A100-SXM4-80GB": "a100-sxm4-80gb",
    "NVIDIA A100-SXM4-40GB": "a100-sxm4-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "NVIDIA A10G": "a10g",
    "NVIDIA B200": "b200-sxm-180gb",
    "NVIDIA B300 SXM6 AC": "b300-sxm-288gb",
    "NVIDIA GB10": "gb10",
    "NVIDIA GB200": "gb200-nvl72",
    "NVIDIA GeForce RTX 3060": "rtx-3060-12gb",
    "NVIDIA GeForce RTX 3080": "rtx-3080-10gb",
    "NVIDIA GeForce RTX 4060 Ti": "rtx-4060-ti-8gb",
    "NVIDIA GeForce RTX 4070 Ti SUPER": "rtx-4070-ti-super",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GH200 480GB": "gh200-96gb",
    "NVIDIA H100 80GB HBM3": "h100-sxm5-80gb",
    "NVIDIA H100 NVL": "h100-nvl-94gb",
    "NVIDIA H100 PCIe": "h100-pcie-80gb",
    "NVIDIA GH200 120GB": "gh200-96gb-120gb-host",
    "NVIDIA H20": "h20-96gb",
    "NVIDIA H20-3e": "h20-141gb",
    "NVIDIA L20": "l20",
    "AMD Instinct MI300X VF": "mi300x",
    "AMD Instinct MI325X VF": "mi325x",
    "AMD Instinct Mi325X VF": "mi325x",
    "NVIDIA H200": "h200-sxm-141gb",
    "NVIDIA L40S": "l40s",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA RTX A6000": "rtx-a6000",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-server",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000",
    "NVIDIA Thor": "jetson-agx-thor",
    "Orin": "jetson-agx-orin-64gb",
    "Tesla T4": "t4",
    "Tesla V100-SXM2-16GB": "v100-sxm2-16gb",
    "Tesla V100-SXM2-32GB": "v100-sxm2-32gb",
    "AMD Instinct MI300X": "mi300x",
    "AMD Instinct MI250X/MI250": "mi250x-gcd",
    "AMD Radeon RX 7900 XTX": "rx-7900-xtx",
    "Radeon 8060S Graphics": "ryzen-ai-max-395",
    "HL-325L": "gaudi3",
    "Intel(R) Arc(TM) A770 Graphics": "arc-a770-16gb",
    "Intel(R) Arc(TM) Graphics 140V": "arc-140v-258v",
    "Intel(R) Data Center GPU Max 1550": "max-1550",
    "Intel(R) Xeon(R) 6767P": "xeon-6767p",
    "INTEL(R) XEON(R) PLATINUM 8592+": "xeon-8592plus",
    "AMD EPYC 9654 96-Core Processor": "epyc-9654",
    "Apple M2 Ultra": "m2-ultra-76core",
    "TPU v5 lite": "tpu-v5e",
    "TPU v6 lite": "tpu-v6e",
}
#: Names in other tools.
PEERS = {
    "a100_pcie": "a100-pcie-80gb",
    "a100_sxm": "a100-sxm4-80gb",
    "b200_sxm": "b200-sxm-180gb",
    "b300_sxm": "b300-sxm-288gb",
    "b60": "arc-pro-b60",
    "gb200": "gb200-nvl72",
    "gb300": "gb300-nvl72",
    "h100_pcie": "h100-pcie-80gb",
    "h100_sxm": "h100-sxm5-80gb",
    "h200_sxm": "h200-sxm-141gb",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
    "A100_40GB_GPU": "a100-sxm4-40gb",
    "A100_80GB_GPU": "a100-sxm4-80gb",
    "GH200_GPU": "gh200-144gb",
    "H100_GPU": "h100-sxm5-80gb",
    "MI300X": "mi300x",
    "MI325X": "mi325x",
    "Gaudi3": "gaudi3",
    "TPUv4": "tpu-v4",
    "TPUv5e": "tpu-v5e",
    "TPUv5p": "tpu-v5p",
    "TPUv6": "tpu-v6e",
    "nvidia_A100": "a100-sxm4-80gb",
    "nvidia_A100_40G": "a100-sxm4-40gb",
    "nvidia_A100_80G": "a100-sxm4-80gb",
    "nvidia_A6000": "rtx-a6000",
    "nvidia_H100": "h100-sxm5-80gb",
    "nvidia_H100_SXM": "h100-sxm5-80gb",
    "nvidia_V100": "v100-sxm2-32gb",
}
#: What people type.
TYPED = {
    "h100": "h100-sxm5-80gb",
    "a100": "a100-sxm4-80gb",
    "A100 40G": "a100-sxm4-40gb",
    "H100-SXM5-80GB": "h100-sxm5-80gb",
    "80GB H100 SXM": "h100-sxm5-80gb",
    "H200 SXM 141GB HBM3e": "h200-sxm-141gb",
    "MI300X OAM 192GB HBM3": "mi300x",
    "L40S 48GB GDDR6": "l40s",
    "RTX4090": "rtx-4090",
    "4070ti super": "rtx-4070-ti-super",
    "RTX 4090 24 GB": "rtx-4090",
    "Tesla H100 SXM": "h100-sxm5-80gb",
    "dgx h100": "h100-sxm5-80gb",
    "hgx b200": "b200-sxm-180gb",
    "M3 Max 30-core": "m3-max-30core",
    "m2ultra": "m2-ultra-76core",
    "trn2": "trainium2",
    "6767p": "xeon-6767p",
}


@for_every([*PRINTED.items(), *PEERS.items(), *TYPED.items()])
def test_the_name_leads_to_the_system(name, slug):
    assert system_files.find(name).id == slug


@pytest.mark.parametrize(
    "name, near",
    [
        ("H1000", "h100"),
        ("GeForce GTX 1080", "NVIDIA GeForce RTX 4080"),
        ("M7 Max", "M4 Max"),
    ],
)
def test_an_unknown_name_lists_the_near_ones(name, near):
    with pytest.raises(UnknownSystem) as caught:
        hardware_db.load(name)
    assert name in str(caught.value)
    assert near in caught.value.near
    assert "ridgeline systems" in str(caught.value)


def test_several_names_at_once_are_told_where_several_are_compared():
    with pytest.raises(UnknownSystem, match="Give one system; `sweep` and `plan` compare several"):
        hardware_db.load("h100,h200")


@pytest.mark.parametrize("name", ["RTX 4090 48GB", "H100 40GB", "H100 HBM2", "A100 Hopper"])
def test_a_suffix_that_is_not_true_of_the_device_is_no_match(name):
    with pytest.raises(UnknownSystem):
        system_files.find(name)


@pytest.mark.parametrize("name", ["", "   ", "nvidia", "gpu", "80GB", "hopper", "\x00", "../"])
def test_words_that_name_no_device_are_unknown(name):
    with pytest.raises(UnknownSystem):
        system_files.find(name)


def test_a_name_that_fits_several_systems_asks_which():
    twins = [
        lookup.NamedSystem("one", ("one", "Falcon 40GB"), lookup.parts("hbm2")),
        lookup.NamedSystem("two", ("two", "Falcon 40GB PCIe"), lookup.parts("hbm2 sxm")),
    ]
    assert lookup.resolve("falcon 40gb hbm2", twins[:1], lookup.index(twins[:1])).slug == "one"
    same = [
        lookup.NamedSystem("one", ("one", "Falcon"), lookup.parts("hbm2 40gb")),
        lookup.NamedSystem("two", ("two", "Falcon X"), lookup.parts("hbm2 40gb falcon")),
        lookup.NamedSystem("six", ("six", "Falcon"), lookup.parts("hbm2 80gb")),
    ]
    with pytest.raises(UnknownSystem, match="say which"):
        lookup.resolve("falcon hbm2", same, {})


@pytest.mark.parametrize(
    ("name", "slug", "others"),
    [
        ("H200", "h200-sxm-141gb", ["h200-nvl-141gb"]),
        ("H100", "h100-sxm5-80gb", ["h100-nvl-94gb", "h100-pcie-80gb"]),
        ("A100", "a100-sxm4-80gb", ["a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm4-40gb"]),
        ("H20", "h20-96gb", ["h20-141gb"]),
        ("MI300", "mi300x", ["mi300a"]),
        ("RTX 3080", "rtx-3080-10gb", ["rtx-3080-ti", "rtx-3080-12gb"]),
    ],
)
def test_a_bare_name_is_its_default_board_and_the_others_are_named(name, slug, others):
    system = hardware_db.load(name)
    assert system.slug == slug
    assert system == hardware_db.load(slug), "notes tell no two systems apart"
    (note,) = system.notes
    assert note.startswith(f"{name} is taken as {slug}, not ")
    assert all(other in note for other in others)


@pytest.mark.parametrize(
    "name", ["h200-sxm-141gb", "NVIDIA H100 80GB HBM3", "A100 SXM 80GB", "RTX 4090", "a10", "B200"]
)
def test_a_name_that_tells_one_device_from_all_others_has_no_note(name):
    assert hardware_db.load(name).notes == ()


@pytest.mark.parametrize(
    ("start", "slug"), [("MI325", "mi325x"), ("groq", "groq-3-lpu"), ("Inferentia", "inferentia2")]
)
def test_the_beginning_of_one_name_alone_is_that_system(start, slug):
    system = hardware_db.load(start)
    assert system.slug == slug
    assert system.notes == (f"{start} is taken as {slug}, the only name that starts with it",)


@pytest.mark.parametrize(
    ("start", "fits"),
    [
        ("epyc", ["epyc-9654", "epyc-9755", "epyc-9965"]),
        ("RX 7900", ["rx-7900-gre", "rx-7900-xt", "rx-7900-xtx"]),
        ("RTX 6000", ["rtx-6000-ada", "rtx-pro-6000"]),
    ],
)
def test_the_beginning_of_several_names_lists_them(start, fits):
    with pytest.raises(UnknownSystem, match="say which") as caught:
        hardware_db.load(start)
    assert caught.value.near == fits


def test_a_number_alone_is_the_beginning_of_no_name():
    with pytest.raises(UnknownSystem):
        hardware_db.load("7800")


def test_every_spelling_leads_to_its_system():
    spelled = hardware_db.spellings()
    assert spelled["h200"] == "h200-sxm-141gb"
    assert all(system_files.find(name).id == slug for name, slug in spelled.items())


@given(st.text(max_size=80))
def test_any_text_is_a_system_or_an_unknown_one(name):
    try:
        slug = system_files.find(name).id
    except UnknownSystem as error:
        assert len(error.near) <= 8
    else:
        assert slug in system_files.slugs()


@given(st.sampled_from(sorted(system_files.shipped())), st.randoms(use_true_random=False))
def test_case_and_separators_do_not_matter(slug, random):
    separator = random.choice(["-", "_", " ", ""])
    spelled = "".join(random.choice([c.upper(), c]) for c in slug.replace("-", separator))
    assert system_files.find(spelled).id == slug
