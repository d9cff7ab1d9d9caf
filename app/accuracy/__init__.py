"""Errors of the predictions on the shipped measurements."""
