"""Decisions on measured frontiers: does the prediction choose the deployment that measured best?

A question is a model, a GPU, lengths and a TPOT target.  Its candidates are the measured loads
(engine, format, degrees, open requests) of at least two deployments.  The best candidate has the
highest measured output tokens/s per GPU among those whose measured TPOT meets the target.  The
chosen candidate has the highest expected value: predicted tokens/s times the probability of meeting
the target.  The regret is the share of the best throughput that the choice loses.  It is 1 if the
choice's measured TPOT misses the target by more than `MISSED`, or if no candidate is predicted to
meet the target.

Choosing the best of many predictions favours candidates whose errors are optimistic, so chosen
plans meet their targets less often than their predicted probability says.  `correction` estimates
how much less, on runs that were left out of the fit.

`loads` has the measured loads, `choices` the questions and the choices, `correction` the correction
of probabilities, `scores` the tables, `kept` the shipped tables.
"""
