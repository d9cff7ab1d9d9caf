"""Predicted beside measured: sums that must hold, differences and findings."""
