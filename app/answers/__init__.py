"""Answers as columns: the figures of a result, declared once, and tables made from them."""
