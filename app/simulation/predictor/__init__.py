"""The price of a step for others: our tables in the files that simulators and planners read.

Two interfaces are fixed well enough in their programs' documents: the profiling results of NVIDIA
Dynamo's planner and the replay table of SGLang's simulator.
"""
