"""Replicas under a load that changes: autoscalers, starts, losses, and how many are enough."""
