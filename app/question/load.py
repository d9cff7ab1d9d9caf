"""Parameters of a load: how many requests, their lengths, what they share."""

from dataclasses import dataclass
from typing import Any

from app.question.groups import INPUTS, LENGTHS, SHARED
from app.question.parameter import parameter

_SECONDS = 1e9
#: Recorded sessions that ship, see `app.simulation.recorded_sessions`.
SESSIONS = ("conversation", "coding_agent")


@dataclass(frozen=True, kw_only=True)
class Load:
    """The load: exactly one of a static batch, open requests, a rate and a trace."""

    batch: int = parameter(
        "whole", 1, "Static batch: number of sequences.", limit="batch", array=True,
        aliases=("batch_size",),
    )  # fmt: skip
    concurrency: float | None = parameter(
        "whole", None,
        "Users of a closed loop over the whole deployment: each has a request in flight, or pauses "
        "between two turns (think_s).",
        limit="concurrency", array=True, label="Users",
    )  # fmt: skip
    rate: float | None = parameter(
        "number", None,
        "Request rate: arrivals per second over the whole deployment; of sessions with several "
        "turns, every turn is a request.",
        unit="1/s", above=True, most=1e9, array=True, aliases=("request_rate",),
    )  # fmt: skip
    trace: Any = parameter(
        "text", None, "Recorded requests: CSV or JSON lines, compressed or not.", names="trace",
    )  # fmt: skip
    burst_start: bool = parameter(
        "truth", False,
        "All users start at once and send ten requests each, as in public benchmarks; by default "
        "the loop is in steady state.",
    )  # fmt: skip
    requests: int | None = parameter(
        "whole", None,
        "Number of requests; by default ten per user, 1,000 at a rate, or the whole trace.",
        least=1, most=2_000_000, aliases=("num_prompts",),
    )  # fmt: skip
    burstiness: float = parameter(
        "number", 1.0,
        "Shape of the gamma-distributed gaps between arrivals: 1 is Poisson, smaller is "
        "burstier.", least=1e-3, most=1e6,
    )  # fmt: skip
    ramp_to: float = parameter(
        "number", 0.0, "Final rate of a ramp that starts at `rate`; 0: no ramp.", unit="1/s",
        most=1e9,
    )  # fmt: skip
    ramp_s: float = parameter(
        "number", 0.0, "Duration of the ramp in seconds.", unit="s", most=_SECONDS, label="Ramp",
        aliases=("ramp_seconds",),
    )  # fmt: skip
    seed: int = parameter(
        "whole", 0, "Random seed; the same seed gives the same result.", most=2**53,
    )  # fmt: skip

    # ------------------------------------------------------------------------- lengths
    isl: int = parameter(
        "whole", 1024, "Prompt length: input tokens per request.", limit="isl", array=True,
        group=LENGTHS,
        label="Input", aliases=("input_len", "random_input_len"),
    )  # fmt: skip
    osl: int = parameter(
        "whole", 256, "Output length: output tokens per request.", limit="osl", array=True,
        group=LENGTHS,
        label="Output", aliases=("output_len", "random_output_len"),
    )  # fmt: skip
    length_ratio: float | None = parameter(
        "number", None,
        "Lengths are uniform between this share of isl and osl and the full values; 1: equal. By "
        "default they vary by 10 % around isl and osl; in a static batch they are equal.",
        above=True, most=1.0, array=True, group=LENGTHS,
    )  # fmt: skip
    length_spread: float = parameter(
        "number", 0.0, "Lognormal lengths: standard deviation over mean.", most=10.0, group=LENGTHS,
    )  # fmt: skip
    lengths: Any = parameter(
        "text", None, "File of lengths to draw from, with columns input_tokens and output_tokens.",
        group=LENGTHS, names="lengths",
    )  # fmt: skip

    # ------------------------------------------------------------------------- what requests share
    prefix_hits: float = parameter(
        "number", 0.0, "Prefix cache hit rate: share of each prompt that is already in the cache.",
        most=1.0 - 1e-9, group=SHARED,
    )  # fmt: skip
    shared_tokens: int = parameter(
        "whole", 0, "Tokens of a common prefix of all prompts (system prompt), in addition to isl.",
        most=10_000_000, group=SHARED, aliases=("shared_prompt", "random_prefix_len"),
    )  # fmt: skip
    turns: int = parameter(
        "whole", 1, "Turns per session; each prompt repeats the conversation so far.", least=1,
        most=1000, group=SHARED,
    )  # fmt: skip
    turn_isl: int = parameter(
        "whole", 0, "New prompt tokens of each turn after the first; 0: isl.", most=10_000_000,
        group=SHARED, label="Input of a later turn",
    )  # fmt: skip
    think_s: float = parameter(
        "number", 0.0, "Pause of a user between two turns of a session.", unit="s", most=_SECONDS,
        group=SHARED, aliases=("think_time",), label="Pause between turns",
    )  # fmt: skip
    think_spread: float = parameter(
        "number", 1.0,
        "Lognormal pauses between turns: standard deviation over mean; 0: equal pauses.", most=10.0,
        group=SHARED, label="Spread of the pauses",
    )  # fmt: skip
    sessions: str = parameter(
        "text", "",
        "Recorded sessions, whose lengths, turns and pauses replace isl, osl and turns.",
        choices=("", *SESSIONS), group=SHARED,
    )  # fmt: skip
    prefix_tier: str = parameter(
        "text", "device", "Where the cached share of `prefix_hits` is stored.", choices=("device",
        "host"),
        group=SHARED,
    )  # fmt: skip
    samples: int = parameter(
        "whole", 1, "Outputs sampled per prompt, all returned (n).", least=1, most=1024,
        group=SHARED,
    )  # fmt: skip
    beams: int = parameter(
        "whole", 1, "Beam width of a beam search that returns one output.",
        least=1, most=1024, group=SHARED,
    )  # fmt: skip

    # ------------------------------------------------------------------------- inputs beside text
    images: int = parameter(
        "whole", 0, "Images per request; their tokens are added to isl.", most=10_000, group=INPUTS,
    )  # fmt: skip
    image_size: str = parameter(
        "text", "", 'Width and height of the images in pixels: "1024x768".', group=INPUTS,
    )  # fmt: skip
    audio_seconds: float = parameter(
        "number", 0.0, "Seconds of audio per request; 0: one full window of the model.",
        label="Audio", unit="s", most=1e6, group=INPUTS,
    )  # fmt: skip
    diffusion_steps: int = parameter(
        "whole", 0, "Denoising passes of a diffusion model per output; 0: one per token.",
        most=1_000_000, group=INPUTS,
    )  # fmt: skip
    block_length: int = parameter(
        "whole", 0,
        "Tokens that a diffusion model refines together; 0: the model's own block length.",
        most=1_000_000, group=INPUTS,
    )  # fmt: skip
