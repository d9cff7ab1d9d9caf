"""Cost of tokens, rented or owned, over a day, against an API; their energy and carbon."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.answers.columns import COLUMNS
from app.charts import economics as charts
from app.dashboard import caches, export, sidebar, strip
from app.dashboard.page_texts import page_text
from app.dashboard.question_form import control
from app.dashboard.widgets import card, draw_table
from app.decide import economics as model
from app.decide.account import Account, with_measured
from app.decide.economics import ASSUMED
from app.decide.economics_words import trust
from app.decide.loads import load_words, under_load
from app.decide.operation import Operation
from app.measuring import run_store
from app.question.hours import DAY
from app.question.question import Question
from app.rights import rights_here
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.economics import PowerModel
from genz_core.errors import InvalidValue
from hardware_db.site_power import site_power

Named = Mapping[str, Any]
_ASSUMED = {"host_w": "host", "network_w": "network", "pue": "PUE", "cap": "power cap"}


@dataclass(frozen=True, slots=True)
class Stated:
    """The inputs of the page: a setup under load with its prices, and the power model.

    measured_by: the stored run that measured the power, "" for none.
    """

    setup: Setup
    power: PowerModel
    measured_by: str = ""

    @property
    def question(self) -> Question:
        """The question with its prices."""
        return self.setup.scenario

    @property
    def account(self) -> Account:
        """The inputs of an account."""
        return Account(caches.deployed(self.setup), self.power, self.measured_by)


def page() -> None:
    """Draw the prices and their results for the sidebar's scenario under load."""
    setup, resolved = sidebar.deployed_setup("the cost of tokens")
    s = setup.scenario
    if s.kind == "trace":
        sidebar.stop(InvalidValue("economics need users or a rate; a trace has no single load"))
    strip.say(under_load(s), "economics")
    st.caption(
        f"One replica: {plain(resolved.model.name)} on {s.tp * s.pp * s.dp} × "
        f"{plain(resolved.system.name)}, engine {plain(resolved.engine.name)}, "
        f"{load_words(under_load(s))}, {quantities.count(s.isl)} tokens "
        f"in, {quantities.count(s.osl)} out."
    )
    with sidebar.stopping():
        sidebar.gated_load(replace(setup, scenario=under_load(s)), switch=False)
        account = with_kept_runs(account_form(setup))
        named = answered(account)
    show(account, named)


@caches.by_setup(64)
def answered(stated: Stated) -> Named:
    """As `app.decide.economics.document`."""
    return model.document(stated.account)


# ------------------------------------------------------------------------------- inputs

#: Visible and collapsed prices, by the key of an address.
_IN_VIEW = {"capex": "capex", "api_in": "api_in", "api_out": "api_out", "peak_rate": "peak"}
_MORE = {
    "lifetime": "life", "interest": "interest", "opex": "opex", "pue": "pue",
    "host_power": "host", "network_power": "network", "electricity": "kwh", "carbon": "carbon",
    "power": "watts", "cached": "cached",
}  # fmt: skip


def account_form(setup: Setup) -> Stated:
    """Draw the inputs; returns the setup under load with them.

    Raises:
        InvalidValue: an invalid price or day.
    """
    around = site_power(caches.resolved(setup).system)
    known = {"pue": around.pue, "host_power": around.host_w, "network_power": around.network_w}
    with st.grid(4, min_column_width=150):
        prices = {name: _price(name, key) for name, key in _IN_VIEW.items()}
    with st.expander("Ownership, energy, day", icon=":material/tune:", key="economics_more"):
        with st.grid(5, min_column_width=150):
            for name, key in _MORE.items():
                own = known.get(name)
                more = {"placeholder": f"{own.value:g}", "help": str(own)} if own else {}
                prices[name] = _price(name, key, **more)
            power = PowerModel(
                **{name: _share(name) for name in ("idle", "compute", "memory", "links")}
            )
        shares = ", ".join(f"{share:g}" for share in DAY)
        prices["day"] = _price("day", "day", placeholder=shares, help=ASSUMED["day"], max_chars=400)
    question = replace(under_load(setup.scenario), **prices)
    return Stated(replace(setup, scenario=question), power)


def _price(name: str, key: str, **more: Any) -> Any:
    return control(name, key=f"economics_{key}", **more)


def _share(name: str) -> float:
    """Draw the share of a part in the power of a device; returns it."""
    percent = st.number_input(
        f"Power: {name} [%]", 0.0, 100.0, 100.0 * getattr(PowerModel(), name), 5.0,
        key=f"economics_power_{name}", bind="query-params", format="%.4g", help=ASSUMED["power"],
    )  # fmt: skip
    return percent / 100.0


def with_kept_runs(stated: Stated) -> Stated:
    """With the power that a stored run near the load measured, if the visitor may see it."""
    may = rights_here().may_measure
    own, *servers = run_store.stores()
    stores = [own, *servers] if may or not servers else servers
    found = with_measured(stated.account, stores)
    setup = replace(stated.setup, scenario=found.question)
    return replace(stated, setup=setup, measured_by=found.measured_by)


# ------------------------------------------------------------------------------- answers


def show(stated: Stated, named: Named) -> None:
    """Draw the results of the prices."""
    running = Operation(**named["operation"])
    if running.status != "ok":
        st.warning(f"This load cannot be served: {plain(running.status)}.",
                   icon=":material/warning:")  # fmt: skip
    if not math.isfinite(running.requests_per_s):
        return
    _cards(named, running)
    ways = named["ways"]
    if not ways:
        st.info("No price is known for this system. State a rent in the sidebar, or the price of a "
                "device.",
                icon=":material/payments:")  # fmt: skip
    figures = _charts(stated.question, named, running)
    if ways:
        _tables(ways)
    table = pd.DataFrame(
        [{"way": way, **{k: v for k, v in found.items() if isinstance(v, float)}}
         for way, found in ways.items()]
    )  # fmt: skip
    with st.container(horizontal=True):
        with st.popover("Assumptions and sources", icon=":material/menu_book:"):
            for name, words in named["assumed"].items():
                st.markdown(f"- {_ASSUMED.get(name, name)}: {plain(words)}")
            st.markdown(f"- {page_text('split of cost')}")
        export.downloads("economics", figures, table, stated.setup)


def _cards(named: Named, running: Operation) -> None:
    energy = named["energy"]
    with st.grid(5, min_column_width=150, key="cards"):
        for way, found in named["ways"].items():
            rent = f"{quantities.dollars(found['usd_per_device_hour'])} a device-hour"
            span = trust(found)
            card(f"{way.capitalize()}, 1M tokens out", quantities.dollars(found["usd_per_mtok"]),
                 f"80 %: {span}" if span else rent,
                 f"All costs at {rent} divided by the output tokens of {named['load']}; the "
                 "interval follows from that of throughput. Charts and tables also split the cost "
                 "by the time of prompts and outputs.")  # fmt: skip
        card("Served", f"{running.requests_per_s:.3g} req/s",
             f"{quantities.percent(running.prefill_share)} on prompts",
             "Served by one replica; below, the share of its time spent on prompts.")  # fmt: skip
        watts = energy["power_w"]
        used = (running.compute, running.memory, running.links)
        use = " / ".join(map(quantities.percent, used))
        if energy["measured"]:
            use = plain(f"measured: {energy['measured_by']}") if energy["measured_by"] else "stated"
        card("Power per device", f"{watts:,.0f} W" if watts else "not stated", use,
             "Estimated between idle and design power from the utilisation of arithmetic / memory "
             "/ links, unless you state it or a kept run near this load measured it.")  # fmt: skip
        joules = energy["joules_per_token"]
        card("Energy per token", f"{joules:.3g} J" if joules else "–",
             f"{energy['site_joules_per_token']:.3g} J at the site" if joules else "",
             f"At the site, with {energy['host_w']:,.0f} W of host and {energy['network_w']:,.0f} W"
             f" of network power per device, times a PUE of {energy['pue']:g}.")  # fmt: skip
        carbon = energy["carbon_g_per_mtok"]
        if carbon:
            card("Carbon per 1M tokens", f"{carbon:,.3g} g", "by your grid")


def _charts(question: Question, named: Named, running: Operation) -> dict[str, Any]:
    look, ways = export.look(), named["ways"]
    figures: dict[str, Any] = {}
    tokens = running.isl + running.osl
    request = (running.isl * question.api_in + running.osl * question.api_out) / 1e6
    if ways:
        blended = request / tokens * 1e6
        api = (
            {"in": question.api_in, "out": question.api_out, "blended": blended} if request else {}
        )
        figures["prices"] = charts.token_prices(ways, api, look)
        figures["api"] = charts.against_api(ways, running.requests_per_s, request, tokens, look)
        first = next(iter(ways.values()))
        rates = [float(rate) for rate in model.day_rates(running, question)]
        counts = {name: found["replicas"] for name, found in first["day"].items()}
        figures["day"] = charts.day(rates, counts, look)
    energy = named["energy"]
    if energy["caps"]:
        figures["caps"] = charts.power_caps(energy["caps"], look)
        figures["power"] = charts.power_parts(energy["by_part_w"], running.tdp_w, look)
    else:
        st.caption(
            "No power is known for this system, so there are no figures for energy and power caps."
        )
    export.grid("economics", figures, 2, 380)
    return figures


def _tables(ways: Named) -> None:
    rows = []
    for way, found in ways.items():
        for name, day in found["day"].items():
            rows.append({
                "Way": f"{way}, {name}",
                COLUMNS["utilisation"].head: quantities.percent(day["utilisation"]),
                COLUMNS["replicas"].head: _span(day["replicas"]),
                "A day": quantities.dollars(day["usd"]),
                "$/Mtok, input and output": quantities.dollars(day["usd_per_mtok_blended"]),
                "$/Mtok, output only": quantities.dollars(day["usd_per_mtok"]),
            })  # fmt: skip
    draw_table(rows, "economics_day_table")
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
