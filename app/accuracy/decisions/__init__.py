"""Decisions on measured frontiers: does the prediction choose the deployment measured to be best?

A question is a model, a GPU, lengths and the most time per output token.  Its candidates are its
measured loads (engine, format, degrees, open requests), of at least two deployments.  The best has
the most measured output tokens a second and GPU among those whose measured TPOT meets the target;
the chosen one has the most that can be expected: predicted tokens times the probability that the
target is met.  Its regret is the share of the best throughput that it gives away: all of it where
its measured TPOT misses the target by more than `MISSED`, or where nothing can meet the target by
prediction.

Who chooses the best of many predictions chooses errors in its favour: targets are met less often
than the probability of the chosen one says.  How much less, on runs that taught the prediction
nothing, is `correction`.

`loads` has the measured loads, `choices` the questions and what is chosen, `correction` how much
less is met than was said, `scores` the tables, `kept` those that ship.
"""
