import math
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import yaml

import hardware_db
from genz_core.errors import InvalidValue
from genz_core.latency.device import Device
from genz_core.latency.measured_operators import OperatorPoints, price_s
from genz_core.latency.parameters import CLASSES, GemmParameters
from genz_core.systems import System
from hardware_db import profile_schema
from hardware_db.fit.report import page
from hardware_db.intervals import validated_tier
from hardware_db.profiles import FOLDER, load_profile, measured_profiles, residual_quantiles
from hardware_db.profiles.typical import between, share_of_wide
from hardware_db.profiles.validation import OPERATOR_SPLITS, summary, validation_rows
from tests.rules import for_every


def system(slug, family):
    return System(slug, slug, "v", "gpu", family, {"bf16": 100e12}, 1e9, 1e12)


def test_an_unknown_family_gets_the_global_defaults_and_says_so():
    profile = load_profile(system("never-measured", "no-such-family"))
    assert profile.tier == "default"
    assert set(profile.parameters) == set(CLASSES)
    assert profile.fit("gemm", "bf16").tier == "default"
    assert "typical" in profile.note


@pytest.mark.parametrize(
    "path",
    sorted(set(FOLDER.glob("*.yaml")) - {FOLDER / "residuals.yaml"}),
    ids=lambda path: path.stem,
)
def test_every_profile_that_ships_says_where_its_constants_come_from(path):
    profile = profile_schema.read(path, "measured")
    assert profile.parameters
    for fit in profile.fits.values():
        assert fit.data_set


def test_a_measured_system_uses_its_own_constants_and_a_sibling_its_familys():
    for profile in measured_profiles():
        own = load_profile(system(profile.systems[0], profile.family))
        assert (
            own.tier == "measured"
            or ("gemm", "bf16") not in profile.parameters
            or ("decode_attention", "bf16/bf16") not in profile.parameters
        )
        for (operator, fmt), parameters in profile.parameters.items():
            assert own.parameters[operator][fmt] == parameters
        sibling = load_profile(system("a-new-sibling", profile.family))
        assert sibling.tier == "sibling"


def test_a_system_with_the_device_of_another_has_its_kernels_and_keeps_its_own_collectives():
    h800, h100 = (hardware_db.load(name) for name in ("h800", "h100"))
    assert (h800.device_of, h800.device_slug, h100.device_of) == (h100.slug, h100.slug, "")
    for operator, formats in h100.latency.parameters.items():
        if operator != "collective":
            assert h800.latency.parameters[operator] == formats, operator
    [measured] = (profile for profile in measured_profiles() if h800.slug in profile.systems)
    all_reduce = measured.parameters["collective", "nccl.all_reduce"]
    assert h800.latency.constants("collective", "nccl.all_reduce") == all_reduce
    assert h800.latency.residual == h100.latency.residual
    assert h800.latency.note == (
        "fitted on measurements of the same device in h100-sxm5-80gb (h100_sxm)"
    )


def test_the_note_of_a_device_measured_in_part_names_the_classes_and_the_origin_of_the_others():
    note = {
        slug: load_profile(hardware_db.facts(slug).system()).note
        for slug in ("h100", "mi300x", "mi325x")
    }
    assert note["h100"] == "fitted on measurements of this device (h100_sxm)"
    assert note["mi300x"] == (
        "gemm fitted on measurements of this device (mi300x); others from its family (mi308x) and "
        "typical constants"
    )
    assert note["mi325x"] == (
        "gemm, moe fitted on its family: mi300x, mi308x; others from typical constants"
    )


def test_the_typical_profile_is_the_geometric_mean_and_keeps_the_spread():
    def measured(name, family, launch_s):
        key = ("gemm", "bf16")
        fit = profile_schema.Fit("measured", "d", 1)
        return profile_schema.FittedProfile(
            name, family, (name,), {key: GemmParameters(launch_s=launch_s)}, {key: fit}
        )

    pool = [measured("a", "f", 1e-6), measured("b", "f", 1e-6), measured("c", "g", 4e-6)]
    typical = profile_schema.combine(pool, "x", "default")
    assert typical.parameters["gemm", "bf16"].launch_s == pytest.approx(1e-6 * 4 ** (1 / 3))
    spread = typical.fits["gemm", "bf16"].spread
    assert spread["launch_s"] == pytest.approx(math.log(4.0) * math.sqrt(2.0) / 3.0)
    assert spread["overlap"] == 0.2


def test_writing_and_reading_a_profile_gives_it_back(tmp_path):
    default = profile_schema.read(FOLDER / "default_wide.yaml", "default")
    profile_schema.write(default, tmp_path / "x.yaml", "A heading.")
    again = profile_schema.read(tmp_path / "x.yaml", "default")
    assert again == default
    profile_schema.write(again, tmp_path / "y.yaml", "A heading.")
    assert (tmp_path / "x.yaml").read_bytes() == (tmp_path / "y.yaml").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": []}, "no mapping `classes`"),
        ({"classes": {"gem": {}}}, "unknown operator class 'gem'"),
        ({"classes": {"gemm": {"bf16": {"parameters": {}}}}}, "missing"),
        ({"classes": {"pointwise": {"default": {"parameters": {
            "launch_s": -1.0, "memory_efficiency": 0.5, "cache_share": 0.2}}}}}, "outside"),
    ],
)  # fmt: skip
def test_a_profile_that_does_not_fit_is_refused_with_the_reason(tmp_path, change, message):
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump({"name": "bad"} | change))
    with pytest.raises(InvalidValue, match=message):
        profile_schema.read(path, "measured")


def test_twenty_devices_of_ten_families_were_measured():
    profiles = measured_profiles()
    assert len(profiles) == 20
    assert len({profile.family for profile in profiles}) == 10


def mean_error(slug, operator):
    """Mean held-out error of a device's own constants of a class, over formats."""
    [profile] = [profile for profile in measured_profiles() if slug in profile.systems]
    errors = [fit.held_out_mape for key, fit in profile.fits.items() if key[0] == operator]
    return sum(errors) / len(errors)


@pytest.mark.parametrize(
    ("slug", "most"),
    [
        ("mi300x", 0.08),
        ("mi355x", 0.13),
        ("rtx-3090", 0.10),
        ("rtx-4090", 0.10),
        ("h20-96gb", 0.25),
    ],
)
def test_products_of_other_vendors_and_of_consumer_cards_are_predicted_too(slug, most):
    assert mean_error(slug, "gemm") <= most


def test_a_device_that_was_measured_in_part_is_no_better_known_than_its_main_classes():
    mi300x, rtx_4090 = (hardware_db.load(name).latency for name in ("mi300x", "rtx-4090"))
    assert mi300x.fit("gemm", "fp8_block").tier == "measured"
    assert mi300x.fit("gemm", "bf16").tier == "sibling"
    assert (mi300x.tier, rtx_4090.tier) == ("default", "measured")


@for_every(["rtx-3090", "rtx-4090"])
def test_a_consumer_card_is_not_charged_below_the_rates_that_it_was_measured_at(slug):
    products = hardware_db.load(slug).latency.constants("gemm", "bf16")
    assert products.compute_efficiency > 0.9
    assert products.memory_efficiency > 0.9


def test_held_out_error_stands_beside_every_measured_constant_and_bias_is_small():
    for profile in measured_profiles():
        for (operator, fmt), fit in profile.fits.items():
            assert fit.held_out_points > 0, (profile.name, operator, fmt)
            assert fit.held_out_mape is not None
            assert fit.points > 0


@pytest.mark.parametrize(
    ("operator", "formats", "most"),
    [
        ("gemm", ("bf16", "fp8", "fp8_block", "nvfp4"), 0.09),
        ("prefill_attention", (), 0.12),
        ("decode_attention", (), 0.12),
        ("moe", ("bf16", "fp8", "fp8_block", "nvfp4"), 0.16),
        ("collective", (), 0.08),
    ],
)
def test_shapes_that_fitted_nothing_are_predicted_within_the_promised_error(
    operator, formats, most
):
    fits = [
        fit
        for profile in measured_profiles()
        for (kind, fmt), fit in profile.fits.items()
        if kind == operator and (not formats or fmt in formats)
        if profile.name != "mi308x"  # without a datasheet of its own
    ]
    assert sum(fit.held_out_mape for fit in fits) / len(fits) <= most
    assert abs(sum(fit.held_out_bias for fit in fits) / len(fits)) <= 0.05


def device(bytes_per_unit_clock):
    return Device({"bf16": 1e14}, bytes_per_unit_clock * 100 * 1e9, 100.0, 1e9, 40e6)


def test_typical_constants_go_from_narrow_to_wide_memory_without_a_jump():
    shares = [share_of_wide("gemm", device(width)) for width in (1.0, 3.1, 7.0, 15.0, 30.0)]
    assert shares == sorted(shares)
    assert (shares[0], shares[1], shares[-1]) == (0.0, 0.0, 1.0)
    slow, fast = GemmParameters(launch_s=4e-6), GemmParameters(launch_s=1e-6)
    assert between(slow, fast, 0.0).launch_s == pytest.approx(4e-6)
    assert between(slow, fast, 0.5).launch_s == pytest.approx(2e-6)


def test_error_bars_widen_from_measured_to_sibling_to_default():
    for operator in ("gemm", "prefill_attention", "decode_attention", "moe"):
        tiers = residual_quantiles()[operator]
        width = {tier: levels[0.9] - levels[0.1] for tier, levels in tiers.items()}
        assert width["measured"] < width["default"]
        assert width["sibling"] < width["default"]
        assert all(levels[0.1] < 0 < levels[0.9] for levels in tiers.values())


def test_the_committed_validation_covers_every_class_and_split():
    table = summary(pd.DataFrame(validation_rows()))
    splits = table.groupby("operator")["split"].agg(set)
    assert set(splits.index) == set(CLASSES)
    for operator in ("gemm", "prefill_attention", "decode_attention", "moe"):
        assert splits[operator] == set(OPERATOR_SPLITS)


@for_every(["gemm", "prefill_attention", "decode_attention", "moe"])
def test_the_models_beat_the_roofline_and_every_bit_of_knowledge_helps(operator):
    table = summary(pd.DataFrame(validation_rows()))
    error = table[table["operator"] == operator].set_index("split")["mape"]
    order = ["roofline", "unseen family", "+ 20 points", "+ 100 points", "held-out shapes"]
    assert list(error[order]) == sorted(error[order], reverse=True)


def test_error_bars_made_without_a_device_still_cover_it():
    data = yaml.safe_load((FOLDER / "residuals.yaml").read_text())["classes"]
    for operator in ("gemm", "prefill_attention", "decode_attention", "moe"):
        assert 0.7 < data[operator]["measured"]["coverage_of_80"] < 0.9


def test_the_page_of_errors_is_the_one_that_the_committed_table_gives():
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == page(
        pd.DataFrame(validation_rows())
    )


def test_an_unmeasured_family_inherits_from_the_one_next_to_it_and_says_so():
    chip = hardware_db.load("tpu-v6e")
    assert "gemm, pointwise inherited from tpu-v7" in chip.latency.note
    measured = hardware_db.load("tpu-v7").latency
    inherited, own = (profile.constants("gemm", "bf16") for profile in (chip.latency, measured))
    assert asdict(inherited) == pytest.approx(asdict(own))
    assert chip.latency.tier == chip.latency.fit("gemm", "bf16").tier == "default"
    assert measured.fit("gemm", "bf16").tier == "measured" and measured.tier == "default"


@for_every(["m4-max-40core", "gaudi3", "trainium2", "inferentia2"])
def test_a_family_without_neighbours_inherits_typical_constants_and_says_so(slug):
    profile = hardware_db.load(slug).latency
    assert profile.tier == "default"
    assert "inherited from typical constants of all measured families" in profile.note


def test_the_interval_of_a_cpu_is_not_that_of_gpus():
    """Its typical constants are partly per core, so no held-out point shows their error."""
    assert validated_tier(hardware_db.load("epyc-9654").latency) == ""
    assert validated_tier(hardware_db.load("tpu-v6e").latency) == "default"


def test_the_one_measured_product_of_a_tpu_v6e_is_priced_by_the_next_generation():
    """AI-Hypercomputer/tpu-recipes c8cfe2f (Apache-2.0): 8192^3 in bf16, 1.329 ms on the device;
    not used for fitting.
    """
    sizes = dict.fromkeys("mnk", np.array([8192.0]))
    chip = hardware_db.load("tpu-v6e")
    seconds = price_s(OperatorPoints("gemm", "bf16", sizes, np.array([1.329e-3])), chip)
    assert seconds[0] == pytest.approx(1.329e-3, rel=0.25)


@for_every(["nccl", "custom"])
def test_boards_of_one_switch_reach_the_same_share_of_it_with_eight_devices(algorithm):
    """Tables of GB200 and GB300 have nccl with two and four devices; eight once had a default."""
    shares = [
        hardware_db.load(slug).latency.constants("collective", f"{algorithm}.all_reduce")
        for slug in ("b200", "b300", "gb200", "gb300")
    ]
    reached = [constants.efficiency_8 for constants in shares]
    assert max(reached) < 1.1 * min(reached)


@pytest.mark.parametrize(("sibling", "measured"), [("l40", "l40s"), ("a40", "rtx-a6000")])
def test_no_sibling_reaches_higher_rates_than_a_measured_board_with_as_much_of_everything(
    sibling, measured
):
    less, more = hardware_db.load(sibling), hardware_db.load(measured)
    one, other = (board.latency.constants("gemm", "bf16") for board in (less, more))
    assert one.memory_efficiency * less.memory_bytes_per_s <= 1.001 * (
        other.memory_efficiency * more.memory_bytes_per_s
    )
    assert one.compute_efficiency * less.peak("bf16") <= 1.001 * (
        other.compute_efficiency * more.peak("bf16")
    )
    assert one.launch_s >= other.launch_s


def test_a_sibling_with_more_of_everything_reaches_at_least_the_rates_of_a_measured_board():
    more, less = hardware_db.load("gh200-96gb"), hardware_db.load("h100")
    one, other = (board.latency.constants("gemm", "bf16") for board in (more, less))
    assert one.memory_efficiency * more.memory_bytes_per_s >= 0.999 * (
        other.memory_efficiency * less.memory_bytes_per_s
    )
    assert one.compute_efficiency >= other.compute_efficiency
    assert one.k_step_s <= other.k_step_s
