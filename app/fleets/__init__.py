"""Several models on a shared set of different machines: which model runs where, with how many
replicas.
"""
