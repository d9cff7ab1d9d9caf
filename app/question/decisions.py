"""Parameters of a decision: targets, prices, and what a search tries."""

from dataclasses import dataclass
from typing import Any

from app.question.parameter import parameter

_SECONDS = 1e9


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Targets."""

    target: Any = parameter(
        "list", (), 'Targets to meet: "ttft_p95 < 500ms, tpot < 30ms, usd_per_mtok < 0.4".',
        label="Targets",
    )  # fmt: skip
    ttft_target_s: float | None = parameter(
        "number", None, "Goodput target: maximum time to first token of a request.", unit="s",
        most=_SECONDS, label="TTFT target", aliases=("ttft_target",),
    )  # fmt: skip
    tpot_target_s: float | None = parameter(
        "number", None, "Goodput target: maximum time per output token of a request.", unit="s",
        most=_SECONDS, label="TPOT target", aliases=("tpot_target",),
    )  # fmt: skip
    e2e_target_s: float | None = parameter(
        "number", None, "Goodput target: maximum end-to-end latency of a request.", unit="s",
        most=_SECONDS, label="E2E target", aliases=("e2e_target",),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Costs of devices, power and carbon."""

    price: Any = parameter(
        "text", "",
        "Rent per device-hour in US dollars, or by system: h200=3.5,mi300x=2; by default the "
        "published rent.", label="Rent of a device [$/h]", also=("number", "prices"),
        aliases=("rent",),
    )  # fmt: skip
    capex: float = parameter(
        "number", 0.0,
        "Purchase price of a device, including its share of server and network; 0: rented.",
        unit="$", most=1e12,
    )  # fmt: skip
    lifetime: float = parameter(
        "number", 4.0, "Lifetime of a device in years.", unit="years", above=True, most=100.0,
    )  # fmt: skip
    interest: float = parameter(
        "number", 0.0, "Cost of capital per year.", unit="%", most=1000.0,
    )  # fmt: skip
    opex: float = parameter(
        "number", 0.0, "Operating cost per year, as a share of the device's price.", unit="%",
        most=1000.0,
    )  # fmt: skip
    pue: float | None = parameter(
        "number", None,
        "Power usage effectiveness of the site (PUE); by default the industry average.", least=1.0,
        most=100.0,
    )  # fmt: skip
    host_power: float | None = parameter(
        "number", None, "Host and server power per device; by default the system's figure.",
        unit="W", most=1e6,
    )  # fmt: skip
    network_power: float | None = parameter(
        "number", None, "Switch and optics power per device; by default an estimate.", unit="W",
        most=1e6,
    )  # fmt: skip
    electricity: float = parameter(
        "number", 0.10, "Price of electricity.", unit="$/kWh", most=1e3,
    )  # fmt: skip
    carbon: float = parameter(
        "number", 0.0, "Carbon intensity of the grid in grams of CO2 per kWh; 0: unknown.",
        unit="g/kWh", most=1e5,
    )  # fmt: skip
    power: float = parameter(
        "number", 0.0, "Measured power per device; 0: use the power model.", unit="W", most=1e6,
    )  # fmt: skip
    api_in: float = parameter(
        "number", 0.0, "An API's price of input tokens, to compare with; 0: no comparison.",
        unit="$/Mtok", label="API price, input", most=1e6,
    )  # fmt: skip
    api_out: float = parameter(
        "number", 0.0, "An API's price of output tokens, to compare with; 0: no comparison.",
        unit="$/Mtok", label="API price, output", most=1e6,
    )  # fmt: skip
    host_cache_price: float | None = parameter(
        "number", None, "Rent of host memory for cached prefixes; by default the published price.",
        unit="$/GiB-h", most=1e3,
    )  # fmt: skip
    disk_cache_price: float | None = parameter(
        "number", None, "Rent of disk for cached prefixes; by default the published price.",
        unit="$/GiB-h", most=1e3,
    )  # fmt: skip
    remote_cache_price: float | None = parameter(
        "number", None,
        "Rent of other machines' memory for cached prefixes; by default the published price.",
        unit="$/GiB-h", most=1e3,
    )  # fmt: skip
    peak_rate: float = parameter(
        "number", 0.0,
        "Requests per second in the busiest hour; 0: the stated rate, or that of the stated users.",
        unit="1/s", most=1e9,
    )  # fmt: skip
    day: Any = parameter(
        "list", (), "Load of the 24 hours from midnight, as shares of the busiest hour.",
        also=("numbers",),
    )  # fmt: skip
    cached: float = parameter(
        "number", 50.0, "Cached share of the prompt, for the price of cached tokens.", unit="%",
        most=100.0,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Search:
    """The space of a search, and the ranking of its results."""

    devices: Any = parameter(
        "text", "1:8", 'Minimum and maximum number of devices of the whole deployment: "1:64".',
        also=("number", "numbers"),
    )  # fmt: skip
    pools: Any = parameter(
        "list", (),
        "Kinds of deployment to try; by default both. Disaggregated: with a separate prefill "
        "pool.", choices=("aggregated", "disaggregated"), aliases=("kind",),
    )  # fmt: skip
    cross_systems: bool = parameter(
        "truth", False, "Prefill and decode may run on different systems.",
        label="Prompts on another system",
    )  # fmt: skip
    rank: str = parameter(
        "text", "",
        "Figure to rank the plans by; by default cost, or devices if no price is known.",
        label="Rank by",
    )  # fmt: skip
    confidence: float = parameter(
        "number", 0.0, "Required probability that all targets are met.", most=1.0 - 1e-9,
        label="Least probability",
    )  # fmt: skip
    top: int = parameter(
        "whole", 5, "Plans to show.", least=1, most=1000, label="Plans shown",
    )  # fmt: skip
    simulate: bool = parameter(
        "truth", True, "Simulate the best plans for their percentiles.", label="Simulate the best",
    )  # fmt: skip
    break_even: bool = parameter(
        "truth", False,
        "Also find the load above which speculative decoding and prefill pools no longer pay "
        "off.", label="Break-even of drafts and pools", aliases=("pays",),
    )  # fmt: skip
    change: float = parameter(
        "number", 10.0, "Relative change of each resource, up and down.", unit="%", above=True,
        most=1000.0,
    )  # fmt: skip
