"""Parameters of a decision: targets, prices, and what a search tries."""

from dataclasses import dataclass
from typing import Any

from app.question.groups import PRICES, SEARCH, TARGETS
from app.question.parameter import parameter

_SECONDS = 1e9


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Targets."""

    target: Any = parameter(
        "list", (), 'Targets to meet: "ttft_p95 < 500ms, tpot < 30ms, usd_per_mtok < 0.4".',
        group=TARGETS, label="Targets",
    )  # fmt: skip
    ttft_target_s: float | None = parameter(
        "number", None, "Goodput target: maximum time to first token of a request.", unit="s",
        least=0.0, most=_SECONDS, label="TTFT target", group=TARGETS, aliases=("ttft_target",),
    )  # fmt: skip
    tpot_target_s: float | None = parameter(
        "number", None, "Goodput target: maximum time per output token of a request.", unit="s",
        least=0.0, most=_SECONDS, label="TPOT target", group=TARGETS, aliases=("tpot_target",),
    )  # fmt: skip
    e2e_target_s: float | None = parameter(
        "number", None, "Goodput target: maximum end-to-end latency of a request.", unit="s",
        least=0.0, most=_SECONDS,
        label="E2E target", group=TARGETS, aliases=("e2e_target",),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Costs of devices, power and carbon."""

    price: Any = parameter(
        "text", "",
        "Rent per device-hour in US dollars, or by system: h200=3.5,mi300x=2; by default the "
        "published rent.",
        group=PRICES, label="Rent of a device [$/h]", also=("number", "prices"), aliases=("rent",),
    )  # fmt: skip
    capex: float = parameter(
        "number", 0.0,
        "Purchase price of a device, including its share of server and network; 0: rented.",
        unit="$", least=0.0, most=1e12, group=PRICES,
    )  # fmt: skip
    lifetime: float = parameter(
        "number", 4.0, "Lifetime of a device in years.", unit="years", least=0.0, above=True,
        most=100.0, group=PRICES,
    )  # fmt: skip
    interest: float = parameter(
        "number", 0.0, "Cost of capital per year.", unit="%", least=0.0, most=1000.0, group=PRICES,
    )  # fmt: skip
    opex: float = parameter(
        "number", 0.0, "Operating cost per year, as a share of the device's price.", unit="%",
        least=0.0,
        most=1000.0, group=PRICES,
    )  # fmt: skip
    pue: float | None = parameter(
        "number", None,
        "Power usage effectiveness of the site (PUE); by default the industry average.",
        least=1.0, most=100.0, group=PRICES,
    )  # fmt: skip
    host_power: float | None = parameter(
        "number", None, "Host and server power per device; by default the system's figure.",
        unit="W", least=0.0, most=1e6, group=PRICES,
    )  # fmt: skip
    network_power: float | None = parameter(
        "number", None, "Switch and optics power per device; by default an estimate.",
        unit="W", least=0.0, most=1e6, group=PRICES,
    )  # fmt: skip
    electricity: float = parameter(
        "number", 0.10, "Price of electricity.", unit="$/kWh", least=0.0, most=1e3, group=PRICES,
    )  # fmt: skip
    carbon: float = parameter(
        "number", 0.0, "Carbon intensity of the grid in grams of CO2 per kWh; 0: unknown.",
        unit="g/kWh",
        least=0.0, most=1e5, group=PRICES,
    )  # fmt: skip
    power: float = parameter(
        "number", 0.0, "Measured power per device; 0: use the power model.", unit="W",
        least=0.0, most=1e6, group=PRICES,
    )  # fmt: skip
    api_in: float = parameter(
        "number", 0.0, "An API's price of input tokens, to compare with; 0: no comparison.",
        unit="$/Mtok", least=0.0,
        label="API price, input",
        most=1e6, group=PRICES,
    )  # fmt: skip
    api_out: float = parameter(
        "number", 0.0, "An API's price of output tokens, to compare with; 0: no comparison.",
        unit="$/Mtok",
        label="API price, output",
        least=0.0, most=1e6, group=PRICES,
    )  # fmt: skip
    host_cache_price: float | None = parameter(
        "number", None, "Rent of host memory for cached prefixes; by default the published price.",
        unit="$/GiB-h", least=0.0, most=1e3, group=PRICES,
    )  # fmt: skip
    disk_cache_price: float | None = parameter(
        "number", None, "Rent of disk for cached prefixes; by default the published price.",
        unit="$/GiB-h", least=0.0, most=1e3, group=PRICES,
    )  # fmt: skip
    remote_cache_price: float | None = parameter(
        "number", None,
        "Rent of other machines' memory for cached prefixes; by default the published price.",
        unit="$/GiB-h", least=0.0, most=1e3, group=PRICES,
    )  # fmt: skip
    peak_rate: float = parameter(
        "number", 0.0,
        "Requests per second in the busiest hour; 0: the rate that one replica sustains.",
        unit="1/s", least=0.0, most=1e9, group=PRICES,
    )  # fmt: skip
    day: Any = parameter(
        "list", (), "Load of the 24 hours from midnight, as shares of the busiest hour.",
        group=PRICES, also=("numbers",),
    )  # fmt: skip
    cached: float = parameter(
        "number", 50.0, "Cached share of the prompt, for the price of cached tokens.",
        unit="%", least=0.0, most=100.0, group=PRICES,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Search:
    """The space of a search, and the ranking of its results."""

    devices: Any = parameter(
        "text", "1:8", 'Minimum and maximum number of devices of the whole deployment: "1:64".',
        group=SEARCH,
        also=("number", "numbers"),
    )  # fmt: skip
    pools: Any = parameter(
        "list", (),
        "Kinds of deployment to try; by default both. Disaggregated: with a separate prefill "
        "pool.",
        choices=("aggregated", "disaggregated"), group=SEARCH, aliases=("kind",),
    )  # fmt: skip
    cross_systems: bool = parameter(
        "truth", False, "Prefill and decode may run on different systems.",
        group=SEARCH, label="Prompts on another system",
    )  # fmt: skip
    rank: str = parameter(
        "text", "",
        "Figure to rank the plans by; by default cost, or devices if no price is known.",
        group=SEARCH,
        label="Rank by",
    )  # fmt: skip
    confidence: float = parameter(
        "number", 0.0, "Required probability that all targets are met.", least=0.0, most=1.0 - 1e-9,
        group=SEARCH, label="Least probability",
    )  # fmt: skip
    top: int = parameter(
        "whole", 5, "Plans to show.", least=1, most=1000, group=SEARCH, label="Plans shown",
    )  # fmt: skip
    simulate: bool = parameter(
        "truth", True, "Simulate the best plans for their percentiles.", group=SEARCH,
        label="Simulate the best",
    )  # fmt: skip
    break_even: bool = parameter(
        "truth", False,
        "Also find the load above which speculative decoding and prefill pools no longer pay "
        "off.",
        group=SEARCH, label="Break-even of drafts and pools", aliases=("pays",),
    )  # fmt: skip
    change: float = parameter(
        "number", 10.0, "Relative change of each resource, up and down.", unit="%", least=0.0,
        above=True,
        most=1000.0, group=SEARCH,
    )  # fmt: skip
