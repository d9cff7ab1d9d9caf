"""Measured kernels matched with the predicted operators of a step."""
