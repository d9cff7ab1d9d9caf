"""Pages that measure, read reports, compare and calibrate."""
