"""The units of reports that tests compare with."""


def whole_ns(seconds: float) -> int:
    """A time [s] in whole nanoseconds, the unit of the tools."""
    return round(seconds * 1e9)
