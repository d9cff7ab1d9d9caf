"""Two stations in series, prefill workers and decode workers, and the load over both.

All prefill ranks share one queue of prompts; a prompt is read together with others that wait, and
its cache is sent to a decode worker.  There it waits for the running step, and is then answered in
steps that only decode.  Workers of every shape are priced in one call, and the load is balanced for
all combinations of shapes and numbers at once.

With X requests/s, c workers that read and R that decode, r sequences on each of these::

    X <= c prompts/s,  X <= R answers/s,  X <= c / (time on the link)
    X = R r / (steps T(r))                         T: a decode step of r sequences
    open requests = X (before + reading + travel + admission) + R r

`workers` prices what workers of each shape can do, `pools_question` says which of them are combined
and how requests come, `prefill_station`, `link` and `decode_station` are the stations that a
request passes, and `load` balances them and gives the figures.

In a closed loop of N users a prompt meets the load of the N - 1 others.
Source: Reiser and Lavenberg, Journal of the ACM 27 (1980), 313-322 (what an arrival in a closed
loop meets).  Sources of the waits are given with their formulas; the combination is Ridgeline's.
"""
