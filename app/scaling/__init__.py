"""Replicas under a changing load: autoscalers, start times, losses, and how many are enough."""
