"""Page Economics: the terms as inputs, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.charts import economics as charts
from app.dashboard import cached, export, visitor
from app.dashboard.widgets import card
from app.decide import economics as model
from app.decide.economics import ASSUMED, DAY, Operation, Terms
from app.decide.economics_words import trust
from app.decide.measured_power import with_measured
from app.measuring import run_store
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.economics import PowerModel
from genz_core.errors import InvalidValue
from hardware_db.site_power import site_power

Named = Mapping[str, Any]
_ASSUMED = {"host_w": "host", "network_w": "network", "pue": "PUE", "cap": "power cap"}


@cached.by_setup(64)
def answered(setup: Setup, terms: Terms) -> Named:
    """As `app.decide.economics.document`."""
    return model.document(cached.resolved(setup), terms)


# ------------------------------------------------------------------------------- inputs


def terms_form(setup: Setup) -> Terms:
    """Draw the inputs; returns the terms.

    Raises:
        InvalidValue: a day that is none.
    """
    system = cached.resolved(setup).system
    stated, around, slug = system.price_usd_per_hour, site_power(system), system.slug
    with st.grid(5, min_column_width=150):
        rent = _number("Rent [$/h a device]", "rent", 0.0, 0.1,
                       f"0: as the system states, {quantities.dollars(stated)}." if stated else
                       "The system states none.")  # fmt: skip
        capex = _number(
            "Price of a device [$]", "capex", 0.0, 1000.0,
            "With its share of server, network and room; 0: not owned. No default: state yours.",
        )  # fmt: skip
        api_in = _number("API, in [$/Mtok]", "api_in", 0.0, 0.1, "0: no API to compare with.")
        api_out = _number("API, out [$/Mtok]", "api_out", 0.0, 0.1, "0: no API to compare with.")
        peak = _number("Busiest hour [requests/s]", "peak", 0.0, 1.0,
                       "0: what one replica serves.")  # fmt: skip
    with st.expander("Ownership, energy, day", icon=":material/tune:", key="economics_more"):
        with st.grid(5, min_column_width=150):
            more: dict[str, Any] = {
                "lifetime_years": _number("Lifetime [years]", "life", 4.0, 0.5, ASSUMED["lifetime"],
                                          0.1),
                "interest": _number("Interest [% a year]", "interest", 0.0, 0.5, "") / 100.0,
                "opex": _number("Operation [% of price a year]", "opex", 0.0, 0.5, "") / 100.0,
                "pue": _number("PUE", "pue", around.pue.value, 0.05, str(around.pue), 1.0),
                "host_w": _number("Host [W a device]", f"host_{slug}", around.host_w.value, 10.0,
                                  f"At most, beside the devices. {around.host_w}"),
                "network_w": _number("Network [W a device]", f"network_{slug}",
                                     around.network_w.value, 5.0, str(around.network_w)),
                "electricity_usd_per_kwh": _number("Electricity [$/kWh]", "kwh", 0.10, 0.01,
                                                   ASSUMED["electricity"]),
                "carbon_g_per_kwh": _number("Grid [g CO2/kWh]", "carbon", 0.0, 10.0,
                                            "Of your grid; 0: not stated. No default."),
                "power_w": _number("Measured power [W a device]", "watts", 0.0, 10.0,
                                   "Of a run of yours; 0: from utilisation."),
                "cached": _number("Prompt that is cached [%]", "cached", 50.0, 5.0,
                                  "The share that the price of cached tokens is for.") / 100.0,
            }  # fmt: skip
            power = _power()
        day = st.text_input(
            "Load by hour, 24 shares from midnight on", ", ".join(f"{share:g}" for share in DAY),
            key="economics_day", bind="query-params", help=ASSUMED["day"],
        )  # fmt: skip
    return Terms(rent_usd_per_hour=rent, capex_usd=capex, api_in=api_in, api_out=api_out,
                 peak_rate=peak, day=_shares(day), power=power, **more)  # fmt: skip


def _number(
    label: str, key: str, value: float, step: float, meaning: str, least: float = 0.0
) -> float:
    return st.number_input(
        label, least, 1e7, value, step, key=f"economics_{key}", bind="query-params",
        format="%.4g", help=meaning or None,
    )  # fmt: skip


def _power() -> PowerModel:
    usual = PowerModel()
    shares = {
        name: _number(f"Power: {name} [%]", f"power_{name}", 100.0 * getattr(usual, name), 5.0,
                      ASSUMED["power"]) / 100.0
        for name in ("idle", "compute", "memory", "links")
    }  # fmt: skip
    return PowerModel(**shares)


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.replace(";", ",").split(",") if part.strip())
    except ValueError:
        raise InvalidValue(f"the day {text[:60]!r}: give 24 numbers apart by commas") from None


def with_kept_runs(setup: Setup, terms: Terms) -> Terms:
    """Terms with the power that a kept run near the load measured, where the visitor may see it."""
    may = visitor.rights().may_measure
    own, *servers = run_store.stores()
    stores = [own, *servers] if may or not servers else servers
    return with_measured(terms, cached.resolved(setup), stores)


# ------------------------------------------------------------------------------- answers


def show(setup: Setup, terms: Terms, named: Named) -> None:
    """Draw what follows from the terms."""
    running = Operation(**named["operation"])
    if running.status != "ok":
        st.warning(f"This load does not run as it is: {plain(running.status)}.",
                   icon=":material/warning:")  # fmt: skip
    _cards(named, running)
    ways = named["ways"]
    if not ways:
        st.info("State a rent or the price of a device: this system states none.",
                icon=":material/payments:")  # fmt: skip
    figures = _charts(setup, terms, named, running)
    if ways:
        _tables(ways)
    table = pd.DataFrame(
        [{"way": way, **{k: v for k, v in found.items() if isinstance(v, float)}}
         for way, found in ways.items()]
    )  # fmt: skip
    with st.container(horizontal=True):
        _assumptions(named["assumed"])
        export.downloads("economics", figures, table, setup)


def _assumptions(assumed: Mapping[str, str]) -> None:
    with st.popover("Assumptions and sources", icon=":material/menu_book:"):
        for name, words in assumed.items():
            st.markdown(f"- {_ASSUMED.get(name, name)}: {plain(words)}")
        st.markdown(
            "- Cost is split over prompts and answers by the time that each takes; a cached token "
            "costs the attention that reads it."
        )


def _cards(named: Named, running: Operation) -> None:
    energy = named["energy"]
    with st.grid(5, min_column_width=150, key="cards"):
        for way, found in named["ways"].items():
            rent = f"{quantities.dollars(found['usd_per_device_hour'])} a device-hour"
            span = trust(found)
            card(f"{way.capitalize()}, out", quantities.dollars(found["usd_per_mtok_out"]),
                 f"80 %: {span}" if span else rent,
                 f"A million output tokens at {rent}, by the time that answers take; the interval "
                 "is what the throughput's gives.")  # fmt: skip
        card("Served", f"{running.requests_per_s:.3g} req/s",
             f"{quantities.percent(running.prefill_share)} on prompts",
             "By one replica; below, the share of its time that prompts take.")  # fmt: skip
        watts = energy["power_w"]
        used = (running.compute, running.memory, running.links)
        use = " / ".join(map(quantities.percent, used))
        if energy["measured"]:
            use = plain(f"measured: {energy['measured_by']}") if energy["measured_by"] else "stated"
        card("Power of a device", f"{watts:,.0f} W" if watts else "not stated", use,
             "Between idle and the design power by utilisation of arithmetic / memory / links, "
             "unless you state it or a kept run near this load measured it.")  # fmt: skip
        joules = energy["joules_per_token"]
        card("Energy of a token", f"{joules:.3g} J" if joules else "–",
             f"{energy['site_joules_per_token']:.3g} J at the site" if joules else "",
             f"At the site with {energy['host_w']:,.0f} W of host and {energy['network_w']:,.0f} W "
             f"of network a device, times a PUE of {energy['pue']:g}.")  # fmt: skip
        carbon = energy["carbon_g_per_mtok"]
        if carbon:
            card("Carbon of 1M tokens", f"{carbon:,.3g} g", "by your grid")


def _charts(setup: Setup, terms: Terms, named: Named, running: Operation) -> dict[str, Any]:
    look, ways = export.look(), named["ways"]
    figures: dict[str, Any] = {}
    tokens = running.isl + running.osl
    request = (running.isl * terms.api_in + running.osl * terms.api_out) / 1e6
    if ways:
        blended = request / tokens * 1e6
        api = {"in": terms.api_in, "out": terms.api_out, "blended": blended} if request else {}
        figures["prices"] = charts.token_prices(ways, api, look)
        figures["api"] = charts.against_api(ways, running.requests_per_s, request, tokens, look)
        first = next(iter(ways.values()))
        rates = [float(rate) for rate in model.day_rates(running, terms)]
        counts = {name: found["replicas"] for name, found in first["day"].items()}
        figures["day"] = charts.day(rates, counts, look)
    energy = named["energy"]
    if energy["caps"]:
        figures["caps"] = charts.power_caps(energy["caps"], look)
        figures["power"] = charts.power_parts(energy["by_part_w"], running.tdp_w, look)
    else:
        st.caption("This system states no power: energy and power caps are not known.")
    words = {
        "prices": "Cost of a million tokens", "api": "Self-hosted against an API",
        "day": "Arrivals and replicas over a day", "caps": "Output under a power cap",
        "power": "Power of a device by what draws it",
    }  # fmt: skip
    with st.grid(2, min_column_width=380):
        for name, figure in figures.items():
            export.chart(figure, f"economics-{name}", words[name])
    return figures


def _tables(ways: Named) -> None:
    rows = []
    for way, found in ways.items():
        for name, day in found["day"].items():
            rows.append({
                "way": f"{way}, {name}",
                "utilisation": quantities.percent(day["utilisation"]),
                "replicas": _span(day["replicas"]),
                "a day": quantities.dollars(day["usd"]),
                "$/Mtok in and out": quantities.dollars(day["usd_per_mtok_blended"]),
                "$/Mtok of output alone": quantities.dollars(day["usd_per_mtok_of_output_alone"]),
            })  # fmt: skip
    st.dataframe(pd.DataFrame(rows), hide_index=True, height="content", key="economics_day_table")
    for way, found in ways.items():
        api = found["api"]
        if api is None:
            continue
        share = api["break_even_utilisation"]
        enough = (
            f"{quantities.percent(share)} of what one replica serves"
            if share <= 1.0
            else f"{share:.3g} times what one replica serves: it never pays"
        )
        st.markdown(
            f"**{way.capitalize()}** breaks even with the API from "
            f"{api['break_even_requests_per_s']:.3g} requests/s on "
            f"({api['break_even_tokens_per_day'] / 1e6:,.0f} M tokens a day), with one replica: "
            f"{enough}."
        )


def _span(counts: list[float]) -> str:
    low, high = int(np.min(counts)), int(np.max(counts))
    return str(low) if low == high else f"{low} to {high}"
