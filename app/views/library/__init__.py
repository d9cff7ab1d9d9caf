"""Pages about what ships: accuracy, hardware, models."""
