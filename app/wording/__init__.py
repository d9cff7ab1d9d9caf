"""Quantities and sentences as text: display units, free of models and screens."""
