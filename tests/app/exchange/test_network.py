"""Networks of ASTRA-sim: dimensions computed by hand, and a round trip."""

import math

import pytest
import yaml

import hardware_db
from app.exchange.network import Dimension, as_text, network_of, read, system_document
from genz_core.errors import InvalidValue
from hardware_db import system_files
from tests.app.commands.test_cli import fail, run


def test_a_board_and_its_fabric_are_two_dimensions() -> None:
    board, fabric = network_of(hardware_db.load("h100"), 32)
    assert board == Dimension("Switch", 8, 450e9, 1.5e-6)
    assert (fabric.form, fabric.devices, fabric.bytes_per_s) == ("Switch", 4, 50e9)
    assert as_text((board,)) == (
        "topology: [ Switch ]\nnpus_count: [ 8 ]\n"
        "bandwidth: [ 450 ]  # GB/s, one link and direction\nlatency: [ 1500 ]  # ns\n"
    )


def test_a_pair_of_a_mesh_keeps_its_link() -> None:
    system = next(
        system for system in map(hardware_db.load, hardware_db.names())
        if system.links and system.links[0].topology.form == "mesh" and system.links[0].domain == 8
    )  # fmt: skip
    whole, half = (network_of(system, devices)[0] for devices in (8, 4))
    assert whole.bytes_per_s == pytest.approx(system.links[0].bytes_per_s / 7)
    assert half.bytes_per_s == pytest.approx(whole.bytes_per_s)


@pytest.mark.parametrize("slug", sorted(hardware_db.names())[::8])
def test_a_system_takes_its_own_network_back(slug: str) -> None:
    system = hardware_db.load(slug)
    devices = math.prod({link.domain or 2 for link in system.links[:1]} | {1})
    network = network_of(system, devices)
    assert math.prod(part.devices for part in network) == devices
    if len(network) > 3 or devices == 1:
        return
    again = read(yaml.safe_load(as_text(network)))
    links = system_files.complete(system_document(slug, again, "n.yml"), "n").system().links
    per_s = sum(link.bytes_per_s for link in links)
    assert per_s == pytest.approx(system.links[0].bytes_per_s, rel=1e-5)


def test_the_command_writes_a_system_that_prices(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "Ring_8 slow.yml").write_text(
        "topology: [ Ring, Switch ]\nnpus_count: [ 8, 4 ]\nbandwidth: [ 10, 5 ]\n"
        "latency: [ 500, 5000 ]\n"
    )
    text = run("systems", "network", str(tmp_path / "Ring_8 slow.yml"), "--base", "h100")
    system = system_files.complete(yaml.safe_load(text), "slow").system()
    ring, switch = system.links
    assert (ring.topology.form, ring.bytes_per_s, ring.domain) == ("ring", 20e9, 8)
    assert (switch.topology.form, switch.bytes_per_s, switch.domain) == ("switch", 5e9, 32)


@pytest.mark.parametrize(("words", "said"), [((), "a network file"), (("ring.yml",), "--base")])
def test_the_command_says_what_it_lacks(monkeypatch, capsys, words, said: str) -> None:  # type: ignore[no-untyped-def]
    assert said in fail(monkeypatch, capsys, "systems", "network", *words)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"topology": ["Star"]}, "choose Switch"),
        ({"npus_count": [2.5]}, "whole number"),
        ({"bandwidth": [-1]}, "above 0"),
        ({"latency": [1, 2]}, "one entry per dimension"),
        ({"topology": None}, "one entry|choose"),
    ],
)
def test_what_is_no_network_is_refused(changed: dict, said: str) -> None:  # type: ignore[type-arg]
    whole = {"topology": ["Ring"], "npus_count": [4], "bandwidth": [50], "latency": [500]}
    with pytest.raises(InvalidValue, match=said):
        read({**whole, **changed})


def test_more_devices_than_links_join_are_refused() -> None:
    with pytest.raises(InvalidValue, match="are not a multiple"):
        network_of(hardware_db.load("h100"), 12)
