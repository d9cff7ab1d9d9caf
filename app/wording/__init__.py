"""Quantities and rows as text: display units and tables, free of models and screens."""
