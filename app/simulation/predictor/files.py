"""Files of step prices, by the program that reads them."""

from app.scenario.scenario import Resolved
from app.simulation.predictor import dynamo, sglang
from app.simulation.predictor.step_prices import step_prices
from genz_core.errors import InvalidValue

#: Programs whose formats are supported.
READERS = ("dynamo", "sglang")


def check_reader(reader: str) -> None:
    """Refuse a program other than those in `READERS`.

    Raises:
        InvalidValue: its format is not supported.
    """
    if reader not in READERS:
        raise InvalidValue(f"step prices are written for {' and '.join(READERS)}, not {reader!r}")


def files_for(reader: str, resolved: Resolved, longest: int) -> dict[str, bytes]:
    """Files by path in a folder, for sequences of up to `longest` tokens.

    Raises:
        RidgelineError: as `check_reader` and `step_prices`.
    """
    check_reader(reader)
    prices = step_prices(resolved, longest)
    return dynamo.files(prices) if reader == "dynamo" else sglang.files(prices, resolved)
