"""Compiled plans: a model, system, engine and split with everything but the sizes worked out.

A plan runs the formulas of the graph, of its bounds and of its kernels' arguments once, on
`Symbol`s: shape of the graph, constants, formats and branches are settled, and what is left are a
few results of the sizes.  A step is then those results, rows that are one of them times a factor,
and one call of each kernel's formula for all operators that share it.

The words, and the files in the order to read them:

lane     one of many steps that are priced side by side, one column of every array.  A lane may
         stand for several steps, its nodes: the contexts that a mean decode step averages, or the
         chunks that read a prompt.  `lanes.py`
kind     what tells lanes apart beside sizes: whether they read prompts or decode, and what the
         sequences draft.  Each split with its kind has a plan.  `kinds.py`
kernel   the time of an operator beside its bound; operators of one formula are evaluated in one
         call.  `kernels.py`
part     the operators of a graph that are priced together: those that follow a lane's nodes are
         priced at each node, the others once.  Operators that always take equal time are one
         variant.  `parts.py`
plan     the graph of a split and a kind, its parts, and what they give for lanes.  `plan.py`
plans    the plan of every lane, and what all lanes cost.  `pricing.py`

A lane without a plan is priced through its graph with numbers (`genz_core.schedule`).  So are the
first questions of a deployment where they are small: a plan takes as long to make as three of them.
"""
