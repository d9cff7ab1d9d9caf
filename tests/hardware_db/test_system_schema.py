"""Documents of systems: SI units, includes, and a one-sentence error for invalid ones."""

import copy

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import hardware_db
from genz_core.errors import RidgelineError, UnknownSystem
from tests.hardware_db.system_documents import BOARD, refused
from tests.rules import for_every


def changed(path, value):
    """The board with the value at a dotted path replaced, or removed for None."""
    data = copy.deepcopy(BOARD)
    *parents, last = path.split(".")
    node = data
    for key in parents:
        node = node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return data


def test_the_least_that_is_needed_becomes_a_system_in_si_units():
    system = hardware_db.load(BOARD)
    assert system.peak_flops_per_s == {"bf16": 100e12}
    assert (system.memory_bytes, system.memory_bytes_per_s) == (24e9, 1e12)
    assert (system.l2_bytes, system.tdp_w, system.links) == (None, None, ())
    assert hardware_db.load_yaml(yaml.safe_dump(BOARD)) == system


def test_every_unit_is_converted_once():
    fact = {"value": 2, "source": "sheet", "kind": "datasheet"}
    link = {"name": "wire", "gb_per_s": fact, "latency_us": fact, "domain": fact}
    system = hardware_db.load(
        BOARD
        | {
            "memory_gb": None,
            "memory_gib": fact,
            "l2_mib": fact,
            "l2_gb_per_s": fact,
            "units": fact,
            "clock_mhz": fact | {"value": 1500},
            "tdp_w": fact,
            "links": {"scale_up": link, "scale_out": link | {"domain": fact | {"value": 0}}},
            "host": {"gb_per_s": fact, "memory_gib": fact, "disk_gb_per_s": fact},
            "price": {"usd_per_hour": fact | {"date": "2026-01-31"}},
        }
    )
    assert (system.memory_bytes, system.l2_bytes, system.host_memory_bytes) == (2**31, 2**21, 2**31)
    assert (system.l2_bytes_per_s, system.host_bytes_per_s, system.disk_bytes_per_s) == (2e9,) * 3
    assert (system.compute_units, system.clock_hz, system.tdp_w) == (2, 1.5e9, 2)
    assert system.price_usd_per_hour == 2
    first, last = system.links
    assert (first.bytes_per_s, first.latency_s, first.domain) == (2e9, 2e-6, 2)
    assert last.domain == 0


@for_every(["source", "kind", "value"])
def test_a_number_without_value_source_or_kind_is_refused(part):
    message = refused(changed(f"memory_gb.{part}", None))
    assert message.startswith(f"the YAML: memory_gb.{part} is missing: every number needs")


@pytest.mark.parametrize(
    "path, value, words",
    [
        ("memory_gb_per_s", None, ["memory_gb_per_s is missing"]),
        ("memory_gb", None, ["give either memory_gb (1e9 bytes) or memory_gib (2**30 bytes)"]),
        ("peak_dense_tflops", {}, ["peak_dense_tflops", "at least 1"]),
        ("peak_dense_tflops", None, ["peak_dense_tflops is missing"]),
        ("memory_gb", 24, ["memory_gb is 24; give a mapping of value, source, kind"]),
        ("memory_gb", "24 GB", ["memory_gb is '24 GB'", "value, source, kind"]),
        ("memory_gb.value", "24 GB", ["memory_gb.value is '24 GB'", "number"]),
        ("memory_gb.value", 24e9, ["memory_gb: 2.4e+10", "check the unit"]),
        ("memory_gb_per_s.value", 1e12, ["memory_gb_per_s: 1e+12", "check the unit"]),
        ("peak_dense_tflops.bf16.value", 1e14, ["peak_dense_tflops.bf16: 1e+14", "the unit"]),
        ("memory_gb.value", -24, ["memory_gb.value is -24", "greater than or equal to 0"]),
        ("memory_gb.value", 0, ["memory_gb: 0 is not between"]),
        ("memory_gb.value", float("nan"), ["memory_gb.value is nan"]),
        ("memory_gb.value", float("inf"), ["memory_gb.value is inf", "finite"]),
        ("memory_gb.value", True, ["memory_gb.value is True"]),
        ("memory_gb.kind", "guessed", ["memory_gb.kind is 'guessed'", "'datasheet', 'derived'"]),
        ("memory_gb.kind", "derived", ["memory_gb", "derived needs a note that says how"]),
        ("memory_gb.source", "wiki", ["memory_gb: source 'wiki' is not in sources (sheet)"]),
        ("memory_gbs", {"value": 1}, ["unknown key 'memory_gbs'", "near: memory_gb"]),
        ("memory_tb_per_s", {"value": 1}, ["unknown key 'memory_tb_per_s'", "memory_gb_per_s"]),
        ("unit_name", "SM", ["unknown key 'unit_name'", "near: name, units"]),
        ("memory_gb.unit", "GiB", ["unknown key 'memory_gb.unit'", "near: note"]),
        ("peak_dense_tflops.bf17", {"value": 1}, ["peak_dense_tflops.bf17", "'bf16'"]),
        ("kind", "toaster", ["kind is 'toaster'", "'gpu', 'cpu'"]),
        ("id", "My Card", ["id is 'My Card'"]),
        ("id", "../../etc/passwd", ["id is '../../etc/passwd'"]),
        ("aliases", "card", ["aliases is 'card'"]),
        ("links", {"scale_up": {"name": "x"}}, ["links.scale_up.gb_per_s is missing"]),
        ("include", "h10000", ["unknown system 'h10000'"]),
    ],
)
def test_what_does_not_fit_is_said_in_one_sentence(path, value, words):
    data = changed(path, value)
    with pytest.raises(RidgelineError) as caught:
        hardware_db.load_yaml(yaml.safe_dump(data))
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    for word in words:
        assert word in message


def test_a_peak_that_contradicts_another_is_refused():
    fact = {"value": 50, "source": "sheet", "kind": "datasheet"}
    message = refused(changed("peak_dense_tflops.fp8", fact))
    assert "fp8 (50) is below bf16 (100)" in message


def test_a_price_needs_its_date():
    fact = {"value": 2, "source": "sheet", "kind": "datasheet"}
    assert "price.usd_per_hour.date is missing" in refused(
        BOARD | {"price": {"usd_per_hour": fact}}
    )


def test_several_mistakes_are_counted_behind_the_first():
    message = refused({"id": "empty"})
    assert message.endswith("more)") and " is missing (and " in message


class TestInclude:
    """A variant states its base and its differences."""

    def test_the_rest_is_inherited_with_its_sources(self):
        variant = {
            "include": "h100-sxm5-80gb",
            "id": "h100-fast",
            "name": "H100 with faster memory",
            "memory_gb_per_s": {
                "value": 5000,
                "source": "nvidia-h100",
                "kind": "assumed",
                "note": "what if",
            },
        }
        base, fast = hardware_db.load("h100"), hardware_db.load(variant)
        assert fast.memory_bytes_per_s == 5e12
        assert fast.peak_flops_per_s == base.peak_flops_per_s
        assert fast.links == base.links

    def test_null_takes_a_key_away(self):
        variant = {"include": "h100-sxm5-80gb", "id": "h100-alone", "name": "H100", "links": None}
        assert hardware_db.load(variant).links == ()
        variant = {
            "include": "h100-sxm5-80gb",
            "id": "h100-no-fp8",
            "name": "H100",
            "peak_dense_tflops": {"fp8": None},
        }
        assert "fp8" not in hardware_db.load(variant).peak_flops_per_s

    def test_names_remarks_and_prices_are_not_inherited(self):
        variant = {"include": "h100-sxm5-80gb", "id": "h100-mine", "name": "Mine"}
        assert hardware_db.load(variant).price_usd_per_hour is None
        assert hardware_db.facts("h200").aliases != hardware_db.facts("h100").aliases

    def test_a_changed_figure_never_keeps_the_source_of_the_old_one(self):
        variant = {
            "include": "h100-sxm5-80gb",
            "id": "h100-mine",
            "name": "Mine",
            "memory_gb_per_s": {"value": 5000},
        }
        assert "memory_gb_per_s.source is missing" in refused(variant)

    def test_only_a_shipped_system_can_be_included(self):
        for base in ("h100", "../secret", "/etc/passwd", ["h100"], {}, 7):
            with pytest.raises(UnknownSystem):
                hardware_db.load({"include": base, "id": "x", "name": "xx"})


# ------------------------------------------------------------------------------- any value


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.sampled_from([*sorted(BOARD), "include", "links", "host", "price", "notes", "tdp_w"]),
    ANYTHING,
)
def test_any_value_in_any_place_loads_or_is_refused_in_one_sentence(key, value):
    try:
        system = hardware_db.load(BOARD | {key: value})
    except RidgelineError as error:
        assert "\n" not in str(error) and str(error)
    else:
        assert system.memory_bytes > 0 and system.memory_bytes_per_s > 0


@given(st.sampled_from(["memory_gb", "memory_gb_per_s", "tdp_w"]), ANYTHING)
def test_any_value_of_a_number_is_that_number_or_refused(key, value):
    fact = {"value": value, "source": "sheet", "kind": "datasheet"}
    try:
        record = hardware_db.load(BOARD | {key: fact})
    except RidgelineError as error:
        assert key in str(error)
    else:
        si = {"memory_gb": record.memory_bytes / 1e9, "tdp_w": record.tdp_w}
        assert si.get(key, record.memory_bytes_per_s / 1e9) == pytest.approx(value)
