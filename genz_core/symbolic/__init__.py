"""Formulas on symbols, and the programs that are made of them."""
