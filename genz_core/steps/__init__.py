"""The price of one step: operators, overlap, and the learned correction."""
