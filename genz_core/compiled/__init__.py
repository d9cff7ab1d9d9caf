"""Compiled plans: everything about a model, system, engine and split that does not depend on sizes.

A plan evaluates the formulas of the graph, of its bounds and of its kernels' arguments once, on
`Symbol`s.  The shape of the graph, constants, formats and branches are settled then; what remains
is a few expressions in the sizes.  Pricing a step evaluates these expressions, scales them to rows,
and calls each kernel's formula once for all operators that share it.

Terms, and the files in the order to read them:

lane     one of many steps that are priced together, a column of every array.  A lane may stand for
         several steps, its nodes: the contexts that a mean decode step averages, or the chunks of
         a prompt.  `lanes.py`
kind     what distinguishes lanes besides their sizes: whether they read prompts or decode, and what
         their sequences draft.  Each split and kind has a plan.  `kinds.py`
kernel   the time of an operator in addition to its bound; operators with the same formula are
evaluated in
         one call.  `kernels.py`
part     operators of a graph that are priced together: those that depend on a lane's nodes are
         priced at each node, the others once.  Operators that always take equal time form one
         variant.  `parts.py`
plan     the graph of a split and a kind, its parts, and the prices of lanes.  `plan.py`
plans    the plan of every lane, and the price of all lanes.  `pricing.py`

A lane without a plan is priced through its graph with numbers (`genz_core.schedule`).
"""
