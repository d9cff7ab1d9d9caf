"""Quantities and rows as text: display units, tables; knows no model and no screen."""
