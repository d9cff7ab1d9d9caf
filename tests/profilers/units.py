"""Units in which reports state what tests compare with."""


def whole_ns(seconds: float) -> int:
    """A time [s] in whole nanoseconds, as tools count."""
    return round(seconds * 1e9)
