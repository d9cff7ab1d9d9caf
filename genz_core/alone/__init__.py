"""One configuration at a time: `genz_core.estimate` for plain numbers, on Python floats.

For a model, system, engine and split, the formulas of chunks, memory, plans, kernels and the
correction run once on symbols.  The result is a program that depends only on the workload's sizes
and runs as straight-line Python.  Cases that a program does not cover (pipelines, overlap, sizes
that change more than numbers) are priced as an array of length one.

The files in reading order:

program_choice.py  which configurations have a program, and when one is made; `priced`
program.py   the program of a deployment: its inputs, and the estimate made from its results
steps.py     a step on symbols, from its plan's parts at its nodes
kernels.py   the kernels that steps need, grouped by formula
straight.py  the generated Python of a program
"""
