"""Levels of a device's memory, and kinds of networks between devices."""
