"""Results of serving benchmarks against their prediction: compared, judged, replayed,
learnt from.
"""
