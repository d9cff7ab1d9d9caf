"""Fit the engine profiles on measured serving and batch points: ``python -m app.engine_fit``.

An engine's constants (host time, kernel floors, rates, waiting) are fitted around the priors of
`hardware_db/engines/priors` on ln(predicted / measured).  They move on three levels, each kept near
the one above it by a prior (`genz_core.engine.CONSTANTS`):

    engine   what holds for it on any device            hardware_db/engines/<engine>.yaml
    device   what differs on one of its devices         hardware_db/engines/devices.csv
    recipe   what differs for one model and format      hardware_db/engines/recipes.csv
             there; and a scale of TPOT and of TTFT

so that a device or a model without measurements is priced with what holds for the others.  The
errors on held-out points, and intervals drawn from them, are written beside them.
"""
