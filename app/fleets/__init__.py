"""Several models on shared, different machines: which runs where, with how many replicas."""
