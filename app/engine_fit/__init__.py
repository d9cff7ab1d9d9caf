"""Fit the engine profiles on measured serving and batch points: ``python -m app.engine_fit``.

An engine's constants (host time, kernel floors, rates, waiting) are fitted around the priors of
`hardware_db/engines/priors` on ln(predicted / measured).  They move on levels, the lower ones kept
near the first by a prior (`genz_core.engine.CONSTANTS`):

    engine   what holds for it on any device            hardware_db/engines/<engine>.yaml
    era      what differed in one of its eras           hardware_db/engines/eras.csv
    silicon  what differs on one family of devices      hardware_db/engines/silicon.csv
    device   what differs on one board of it            hardware_db/engines/devices.csv

so that a device or a model without measurements is priced with what holds for the others, a board
beside a measured one of its silicon with what was learned there.  What this misses of each served
run is taught to the steps of loads near it (`genz_core.measured_runs`):

    runs     what physics misses, and what it teaches   hardware_db/engines/runs.csv
    kernels  how that spreads, and how near is near     hardware_db/engines/kernels.csv

The errors on held-out points, and intervals drawn from them, are written beside them.
"""
