"""Which deployment should run: the space of deployments, their figures, targets, and the choice."""
