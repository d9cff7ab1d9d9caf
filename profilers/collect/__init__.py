"""Measure on this machine: models, single operators, and programs under vendor profilers.

Everything that needs torch, transformers, NVML or a GPU is imported inside the functions that use
it, so that reading a report needs none of them.
"""
