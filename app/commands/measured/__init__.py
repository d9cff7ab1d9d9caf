"""Commands that measure, read reports, compare and calibrate."""
