"""Reports along time: launches, gaps, ranks, windows, and traces for a viewer."""
