"""Runs of an engine, measured at multiples of their prediction."""

from collections.abc import Sequence

from app.question.question import Question
from app.scenario import points_file

SCENARIO = Question(model="Qwen/Qwen3-8B", system="h100", engine="vllm", isl=1024, osl=1024)
FACTS = {"model": SCENARIO.model, "system": "h100", "engine": "vllm", "isl": "1024", "osl": "1024"}


def measured_runs(
    tpot: float = 1.25, ttft: float = 1.5, loads: Sequence[str] = ("4", "32", "128")
) -> list[dict[str, str]]:
    """Rows of a points file with the given ratios of measured to predicted figures."""
    rows = [{**FACTS, "id": f"at {load}", "concurrency": load} for load in loads]
    return [
        {
            **row,
            "measured_tpot_s": str(float(priced["tpot_s"]) * tpot),
            "measured_ttft_s": str(float(priced["ttft_s"]) * ttft),
        }
        for row, priced in zip(rows, points_file.price(rows), strict=True)
    ]
