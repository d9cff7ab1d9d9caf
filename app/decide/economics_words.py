"""Economics in lines for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from app.wording import quantities

_DAYS_A_MONTH = 365.0 / 12.0


def trust(found: Mapping[str, Any]) -> str:
    """The 80 % interval of the cost per million output tokens, "" without one, and where the
    arrivals set the throughput, so that the cost is sure.
    """
    low, high = found["usd_per_mtok_low"], found["usd_per_mtok_high"]
    if low is None or low == high:
        return ""
    return f"{quantities.dollars(low)} to {quantities.dollars(high)}"


def sentences(named: Mapping[str, Any]) -> Iterator[str]:
    """Lines on the operation, each form of ownership, energy, and assumptions."""
    running, energy = named["operation"], named["energy"]
    of = (
        f"{named['model']} on {running['devices']} x {named['system']}, {named['engine']}, "
        f"{named['load']}"
    )
    if energy is None:
        yield f"{of}: no cost of a token and no power, as this load cannot be served"
        yield f"warning: {running['message']}"
        for way, found in named["ways"].items():
            yield f"{way}, with as many of this deployment as the load takes:"
            yield from _days(found)
        return
    yield (
        f"{of}: {quantities.request_rate(running['requests_per_s'], 3)}{_each(running)}, "
        f"{quantities.percent(running['prefill_share'])} of its busy time on prompts"
    )
    fresh = "input that is not cached" if running["cached"] else "input"
    for way, found in named["ways"].items():
        span = f" ({trust(found)})" if trust(found) else ""
        yield (
            f"{way}: {quantities.dollars(found['usd_per_device_hour'])} a device-hour; "
            f"{quantities.dollars(found['usd_per_mtok'])}{span} per million output tokens if they "
            f"bear the whole cost; with the cost split by time, per million tokens of {fresh} "
            f"{quantities.dollars(found['usd_per_mtok_in'])}, of cached input "
            f"{quantities.dollars(found['usd_per_mtok_cached'])}, of output "
            f"{quantities.dollars(found['usd_per_mtok_out'])}, of both "
            f"{quantities.dollars(found['usd_per_mtok_blended'])}"
        )
        yield from _days(found)
        if api := found["api"]:
            rate = api["break_even_requests_per_s"]
            yield f"  cheaper than the API from {quantities.request_rate(rate, 3)} on"
    if not named["ways"]:
        yield "no cost: state a price of a device-hour, or a capex"
    if energy["power_w"]:
        yield (
            f"energy: {energy['power_w']:,.0f} W per device, {energy['joules_per_token']:.3g} J "
            f"per output token; of the site {energy['site_joules_per_token']:.3g} J, with "
            f"{energy['host_w']:,.0f} W of host and {energy['network_w']:,.0f} W of network "
            f"per device, times a PUE of {energy['pue']:g}"
        )
        if limit := at_design_power(named):
            yield f"  {limit}"
        measured = f"measured ({energy['measured_by'] or 'as stated'}), " * energy["measured"]
        shares = ", ".join(f"{name} {w:,.0f} W" for name, w in (energy["by_part_w"] or {}).items())
        yield f"  {measured}modelled shares: {shares}" if shares else f"  {measured.strip(', ')}"
        if caps := energy["caps"]:
            at = min(range(len(caps["cap_w"])), key=lambda i: caps["joules_per_token"][i])
            output = caps["output_tokens_per_s"][at] / caps["output_tokens_per_s"][-1]
            yield (
                f"  least energy per output token: {caps['joules_per_token'][at]:.3g} J, under a "
                f"power cap of {caps['cap_w'][at]:,.0f} W, at {quantities.percent(output)} of the "
                "throughput"
            )
    if energy["carbon_g_per_mtok"]:
        yield f"carbon: {energy['carbon_g_per_mtok']:,.3g} g per million output tokens"
    for name, words in named["assumed"].items():
        yield f"note: {name}: {words}"


def _days(found: Mapping[str, Any]) -> Iterator[str]:
    """Lines on a day of one form of ownership."""
    for name, day in found["day"].items():
        yield (
            f"  {name}: {quantities.percent(day['utilisation'])} of the stated load on average, "
            f"{quantities.dollars(day['usd'])} a day, "
            f"{quantities.dollars(day['usd'] * _DAYS_A_MONTH)} a month, "
            f"{quantities.dollars(day['usd_per_mtok_blended'])} per million tokens of input "
            "and output"
        )


def _each(running: Mapping[str, Any]) -> str:
    """What one of several replicas serves, in words."""
    if running["replicas"] == 1:
        return ""
    each = running["requests_per_s"] / running["replicas"]
    return f", {quantities.request_rate(each, 3)} a replica"


def at_design_power(named: Mapping[str, Any]) -> str:
    """The energy of an output token as `estimate`, `serve` and `plan` state it, "" if no design
    power is known.
    """
    joules = named["energy"]["design_joules_per_token"]
    if joules is None:
        return ""
    return (
        f"at most {joules:.3g} J, at the design power of {named['operation']['tdp_w']:,.0f} W per "
        "device: the figure of estimate, serve and plan"
    )
