"""Cost of tokens, rented or owned, over a day, against an API; their energy and carbon."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
from app.decide.economics_words import at_design_power, trust
from app.decide.loads import under_load
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
from genz_core.limits import short
from hardware_db.site_power import site_power

Named = Mapping[str, Any]
_ASSUMED = {"host_w": "host", "network_w": "network", "pue": "PUE", "cap": "power cap"}


def page() -> None:
    """Draw the prices and their results for the sidebar's scenario under load."""
    setup, resolved = sidebar.deployed_setup("the cost of tokens")
    s = setup.scenario
    if s.kind == "trace":
        sidebar.stop(InvalidValue("economics need users or a rate; a trace has no single load"))
    strip.say(under_load(s), "economics")
    one = replace(setup, scenario=under_load(s))
    engine = plain(resolved.engine.name)
    replicas = quantities.counted(s.replicas, "replica")
    st.caption(f"{replicas}, engine {engine}: {sidebar.describe(one)}.")
    with sidebar.stopping():
        sidebar.gated_load(one, switch=False)
        setup, power = account_form(setup)
        own, *servers = run_store.stores()
        mine = [own] if rights_here().may_measure or not servers else []
        account = with_measured(Account(caches.deployed(setup), power), [*mine, *servers])
        setup = replace(setup, scenario=account.question)
        named = answered(setup, power, account.measured_by)
    show(setup, named)


@caches.by_setup(64)
def answered(setup: Setup, power: PowerModel, measured_by: str) -> Named:
    """As `app.decide.economics.document`."""
    return model.document(Account(caches.deployed(setup), power, measured_by))


#: Visible and collapsed prices, by the key of an address.
_IN_VIEW = {"capex": "capex", "api_in": "api_in", "api_out": "api_out", "peak_rate": "peak"}
_MORE = {
    "lifetime": "life", "interest": "interest", "opex": "opex", "pue": "pue",
    "host_power": "host", "network_power": "network", "electricity": "kwh", "carbon": "carbon",
    "power": "watts", "cached": "cached",
}  # fmt: skip


def account_form(setup: Setup) -> tuple[Setup, PowerModel]:
    """Draw the inputs; returns the setup under load with its prices, and the power model.

    Raises:
        InvalidValue: an invalid price or day.
    """
    around = site_power(caches.resolved(setup).system)
    known = {"pue": around.pue, "host_power": around.host_w, "network_power": around.network_w}
    with st.grid(4, min_column_width=150):
        prices = {n: control(n, key=f"economics_{key}") for n, key in _IN_VIEW.items()}
    with st.expander("Ownership, energy, day", icon=":material/tune:", key="economics_more"):
        with st.grid(5, min_column_width=150):
            for name, key in _MORE.items():
                own = known.get(name)
                more = {"placeholder": f"{own.value:g}", "help": str(own)} if own else {}
                prices[name] = control(name, key=f"economics_{key}", **more)
            power = PowerModel(
                **{name: _share(name) for name in ("idle", "compute", "memory", "links")}
            )
        shares = ", ".join(f"{share:g}" for share in DAY)
        prices["day"] = control("day", key="economics_day", placeholder=shares,
                                help=ASSUMED["day"], max_chars=400)  # fmt: skip
    question = replace(under_load(setup.scenario), **prices)
    return replace(setup, scenario=question), power


def _share(name: str) -> float:
    """Draw the share of a part in the power of a device; returns it."""
    percent = st.number_input(
        f"Power: {name} [%]", 0.0, 100.0, 100.0 * getattr(PowerModel(), name), 5.0,
        key=f"economics_power_{name}", bind="query-params", format="%.4g", help=ASSUMED["power"],
    )  # fmt: skip
    return percent / 100.0


def show(setup: Setup, named: Named) -> None:
    """Draw the results of the prices."""
    running = Operation(**named["operation"])
    if not running.runs:
        st.warning(f"This load cannot be served, so no token has a cost and no device a power: "
                   f"{plain(running.message)}.", icon=":material/warning:")  # fmt: skip
        if named["ways"]:
            st.caption("A day with as many of this deployment as the load takes:")
            _tables(named["ways"])
        return
    _cards(named, running)
    ways = named["ways"]
    if not ways:
        st.info(page_text("no price"), icon=":material/payments:")
    figures = _charts(setup.scenario, named, running)
    if ways:
        _tables(ways)
    table = pd.DataFrame(
        {"way": way} | {k: v for k, v in found.items() if isinstance(v, float)}
        for way, found in ways.items()
    )
    with st.container(horizontal=True):
        with st.popover("Assumptions and sources", icon=":material/menu_book:"):
            for name, words in named["assumed"].items():
                st.markdown(f"- {_ASSUMED.get(name, name)}: {plain(words)}")
            st.markdown(f"- {page_text('split of cost')}")
        export.downloads("economics", figures, table, setup)


def _cards(named: Named, running: Operation) -> None:
    energy = named["energy"]
    with st.grid(5, min_column_width=150, key="cards"):
        for way, found in named["ways"].items():
            rent = f"{quantities.dollars(found['usd_per_device_hour'])} a device-hour"
            span = trust(found)
            cost = quantities.dollars(found["usd_per_mtok"])
            card(f"{way.capitalize()}, 1M tokens out", cost,
                 f"80 %: {span}" if span else rent,
                 page_text("cost of output", rent=rent, load=named["load"]))  # fmt: skip
        card("Served", f"{short(running.requests_per_s, 3)} req/s",
             f"{quantities.percent(running.prefill_share)} on prompts",
             "Served by all devices; below, the share of their busy time "
             "spent on prompts.")  # fmt: skip
        watts = energy["power_w"]
        used = (running.compute, running.memory, running.links)
        of = ("arithmetic", "memory", "links")
        use = ", ".join(f"{n} {quantities.percent(v)}" for n, v in zip(of, used, strict=True))
        if energy["measured"]:
            use = plain(f"measured: {energy['measured_by']}") if energy["measured_by"] else "stated"
        card("Power per device", f"{watts:,.0f} W" if watts else "not stated", use,
             page_text("power of a device"))  # fmt: skip
        joules = energy["joules_per_token"]
        at_site = quantities.rate(energy["site_joules_per_token"], "J at the site")
        card("Energy per token", quantities.rate(joules, "J") if joules else "–",
             at_site if joules else "",
             page_text("energy at the site", energy=energy))  # fmt: skip
        carbon = energy["carbon_g_per_mtok"]
        if carbon:
            card("Carbon per 1M tokens", f"{carbon:,.3g} g", "by your grid")
    if joules and (limit := at_design_power(named)):
        st.caption(f"Energy per token: {plain(limit)}.")


def _charts(question: Question, named: Named, running: Operation) -> dict[str, Any]:
    look, ways, energy = export.look(), named["ways"], named["energy"]
    figures: dict[str, Any] = {}
    if ways:
        first, tokens = next(iter(ways.values())), running.isl + running.osl
        request = first["api"]["usd_per_request"] if first["api"] else 0.0
        api = {"input": question.api_in, "output": question.api_out,
               "in and out": request / tokens * 1e6}  # fmt: skip
        figures["prices"] = charts.token_prices(ways, api if request else {}, look)
        figures["api"] = charts.against_api(
            ways, running.replica_requests_per_s, request, tokens, look
        )
        rates = model.day_rates(running, question).tolist()
        counts = {name: found["replicas"] for name, found in first["day"].items()}
        figures["day"] = charts.day(rates, counts, look)
    if energy["caps"]:
        figures["caps"] = charts.power_caps(energy["caps"], look)
        figures["power"] = charts.power_parts(energy["by_part_w"], running.tdp_w, look)
    else:
        st.caption(page_text("no power"))
    export.grid("economics", figures, 2, 380)
    return figures


def _tables(ways: Named) -> None:
    rows = []
    for way, found in ways.items():
        for name, day in found["day"].items():
            low, high = (f"{end(day['replicas']):.0f}" for end in (min, max))
            rows.append({
                "Way": f"{way}, {name}",
                "Mean over stated load": quantities.percent(day["utilisation"]),
                COLUMNS["replicas"].head: low if low == high else f"{low} to {high}",
                "A day": quantities.dollars(day["usd"]),
                "$/Mtok in and out, over the day": quantities.dollars(day["usd_per_mtok_blended"]),
                "$/Mtok out, over the day": quantities.dollars(day["usd_per_mtok"]),
            })  # fmt: skip
    draw_table(rows, "economics_day_table")
    for way, found in ways.items():
        if api := found.get("api"):
            pays = api["break_even_utilisation"] <= 1.0
            enough = page_text("it pays", **api) if pays else page_text("it never pays", **api)
            tokens = api["break_even_tokens_per_day"] / 1e6
            rate = quantities.request_rate(api["break_even_requests_per_s"], 3)
            told = {"way": way.capitalize(), "rate": rate, "tokens": tokens, "enough": enough}
            st.markdown(page_text("break even", **told))
