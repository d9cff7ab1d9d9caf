"""Answers as columns: what a result states, declared once, and tables drawn of it."""
