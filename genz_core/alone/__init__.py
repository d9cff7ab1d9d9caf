"""One configuration at a time: `genz_core.estimate` of numbers, on plain floats.

The formulas of chunks, memory, plans, kernels and the correction run once on symbols for a model,
system, engine and split.  What they leave is one program of the workload's sizes, which runs as
straight-line Python.  What a program does not cover (pipelines, overlap, sizes that change more
than numbers) is priced as an array of length one.

The files in the order to read them:

asked.py     which configurations have a program, and when one is made; `priced`
program.py   the program of a deployment: what goes into it, and the estimate of what it gives
steps.py     a step on symbols, from its plan's parts at its nodes
kernels.py   the kernels that steps ask for, those of one formula in one call
straight.py  the Python that a program becomes
"""
