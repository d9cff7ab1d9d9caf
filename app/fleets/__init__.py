"""Several models on one set of unlike machines: which model runs where, with how many replicas."""
