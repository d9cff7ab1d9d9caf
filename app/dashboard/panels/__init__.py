"""Panels: parts of a page, each with inputs, charts and tables of one kind."""
