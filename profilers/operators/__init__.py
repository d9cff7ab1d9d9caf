"""Operators of a report: kernel names and classes, matrix products, rates."""
