"""Errors on unknown names: what they suggest, where they say they are, and that they travel."""

from __future__ import annotations

import pickle

from genz_core.errors import InvalidValue, UnknownSystem, taking

NAMES = ("h100", "h200", "mi300x", "H100 PCIe")


def test_near_names_are_suggested():
    error = UnknownSystem("system", "h1000", NAMES, hint="Look it up")
    assert error.near == ["h100", "h200", "H100 PCIe"]
    assert str(error) == "unknown system 'h1000'; near: h100, h200, H100 PCIe. Look it up"
    assert UnknownSystem("system", "zzz", NAMES).near == []


def test_several_that_fit_are_listed_and_the_rest_counted():
    fits = [f"h100-{number}" for number in range(10)]
    error = UnknownSystem("system", "h100", NAMES, fits=fits)
    assert error.near == fits[:8]
    assert str(error).endswith("it fits " + ", ".join(fits[:8]) + " and 2 more: say which")


def test_an_interface_gives_its_own_advice_even_if_the_error_is_read_later():
    with taking({"system": "POST /systems"}):
        error = UnknownSystem("system", "h9", instead="`ridgeline systems` lists all")
    assert str(error) == "unknown system 'h9'. POST /systems"


def test_an_error_says_where_it_is():
    for error in (UnknownSystem("system", "h9"), InvalidValue("batch 0")):
        said = str(error)
        error.where = "model 'chat' of the fleet"
        assert str(error) == f"model 'chat' of the fleet: {said}"


def test_an_error_survives_the_way_from_another_process():
    error = UnknownSystem("system", "h1000", NAMES, hint="Look it up")
    error.where = "row 3"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.near, again.code) == (str(error), error.near, "unknown_system")
