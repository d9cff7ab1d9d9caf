"""Step prices for other programs: predicted tables in the file formats of simulators and planners.

Two formats are documented well enough in their programs: the profiling results of NVIDIA Dynamo's
planner and the replay table of SGLang's simulator.
"""
