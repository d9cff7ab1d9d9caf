"""Rents of systems, and the clouds' instance types that contain them."""

import csv
import datetime
from pathlib import Path

import pytest

import hardware_db
from hardware_db import lookup, rental, system_files
from tests.rules import for_every

SYSTEMS = sorted(system_files.shipped())
PRICED = [slug for slug in SYSTEMS if rental.document(slug)]
#: The day on which the newest list was read: no price is later.
READ = datetime.date(2026, 11, 22)


def test_at_least_sixty_systems_have_a_rent():
    rented = [slug for slug in SYSTEMS if hardware_db.load(slug).price_usd_per_hour]
    assert len(rented) >= 60


def test_the_tables_name_systems_that_ship():
    for table in ("prices.csv", "instances.csv"):
        text = Path(rental.__file__).with_name(table).read_text(encoding="utf-8")
        assert {row["system"] for row in csv.DictReader(text.splitlines())} <= set(SYSTEMS)


@for_every(SYSTEMS)
def test_every_price_has_a_day_and_a_list_that_can_be_followed(slug):
    form = hardware_db.facts(slug)
    whole = [entry.usd_per_hour for entry in form.instances if entry.usd_per_hour]
    for price in (form.price.launch_usd, *form.price.rents().values(), *whole):
        if price is not None:
            assert datetime.date(2016, 1, 1) <= price.date <= READ
            assert form.sources[price.source].url


@for_every(PRICED)
def test_a_rent_is_that_of_an_hour_of_one_device(slug):
    rents = hardware_db.facts(slug).price.rents()
    assert all(0.03 <= price.value <= 20 for price in rents.values())
    for market in {"reserved", "marketplace"} & set(rents):
        assert "on_demand" not in rents or rents[market].value <= rents["on_demand"].value


def test_the_rent_that_counts_is_on_demand_before_a_marketplaces():
    h100 = hardware_db.facts("h100")
    assert list(h100.price.rents()) == ["on_demand", "reserved", "marketplace"]
    assert hardware_db.load("h100").price_usd_per_hour == h100.price.rents()["on_demand"].value


def test_the_file_of_an_author_states_a_rent_before_any_market():
    price = {"value": 1.5, "source": "nvidia-h100", "kind": "datasheet", "date": "2026-01-31"}
    own = {"include": "h100-sxm5-80gb", "id": "mine", "name": "Mine"}
    system = hardware_db.load(
        own | {"price": {"usd_per_hour": price, "on_demand_usd_per_hour": price | {"value": 4.0}}}
    )
    assert system.price_usd_per_hour == 1.5


def test_a_newer_generation_rents_dearer_on_demand():
    rates = [
        hardware_db.facts(slug).price.rents()["on_demand"].value
        for slug in ("a100-sxm4-80gb", "h100-sxm5-80gb", "b200-sxm-180gb", "b300-sxm-288gb")
    ]
    assert rates == sorted(rates)


@for_every(PRICED)
def test_an_instance_type_leads_to_its_device(slug):
    for entry in hardware_db.facts(slug).instances:
        for spelling in (entry.name, entry.name.upper(), entry.name.casefold()):
            assert system_files.find(spelling).id == slug, spelling


def test_no_instance_type_is_the_name_of_another_system():
    owner = {}
    for slug in SYSTEMS:
        form = hardware_db.facts(slug)
        names = (form.id, form.name, *form.aliases, *(entry.name for entry in form.instances))
        for name in names:
            assert owner.setdefault(lookup.fold(name), slug) == slug, name


@pytest.mark.parametrize(
    "name, slug, devices",
    [
        ("p5.48xlarge", "h100-sxm5-80gb", 8),
        ("p5en.48xlarge", "h200-sxm-141gb", 8),
        ("Standard_NC40ads_H100_v5", "h100-nvl-94gb", 1),
        ("a3-megagpu-8g", "h100-sxm5-80gb", 8),
        ("BM.GPU.MI300X.8", "mi300x", 8),
    ],
)
def test_the_instance_carries_what_the_cloud_says(name, slug, devices):
    form = hardware_db.facts(name)
    assert form.id == slug
    assert next(entry.devices for entry in form.instances if entry.name == name) == devices


def test_a_rent_is_not_inherited():
    assert hardware_db.facts("h100-sxm5-80gb").instances
    assert not hardware_db.facts("h800-sxm5-80gb").instances
    assert hardware_db.load("h800-sxm5-80gb").price_usd_per_hour is None
