"""Choosing a deployment: the space of deployments, their figures, targets, and the choice."""
