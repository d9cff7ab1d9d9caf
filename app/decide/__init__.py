"""Decisions as pages and reports show them: questions, axes, frontiers, one-page reports."""
