"""Fit the engine profiles to measured serving and batch points: ``python -m app.engine_fit``.

An engine's constants (host time, kernel floors, rates, waiting) are fitted on ln(predicted /
measured), with the values of `hardware_db/engine_priors.yaml` as priors.  Each constant has a value
on several levels; a prior keeps the lower levels close to the engine's value
(`genz_core.engine_constants.CONSTANTS`):

    engine   valid on every device                      hardware_db/engines/<engine>.yaml
    era      difference of one era of its releases      hardware_db/engines/eras.csv
    silicon  difference of one family of devices        hardware_db/engines/silicon.csv
    device   difference of one board of that family     hardware_db/engines/devices.csv
    recipe   of one model and weight format on a board  hardware_db/engines/recipes.csv

A device or a model without measurements is therefore priced with the values of the others, and a
board with the values of measured boards of the same silicon.  The remaining error of each served
run corrects the steps of similar loads (`genz_core.measured_runs`):

    runs     remaining error of each run, and its correction   hardware_db/engines/runs.csv
    kernels  spread of the corrections, and their reach        hardware_db/engines/kernels.csv

The errors on held-out points, and intervals made from them, are written to the same folder.
"""
