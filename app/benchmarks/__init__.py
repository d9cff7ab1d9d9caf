"""Results of serving benchmarks beside their prediction: compared, guarded, replayed, learnt."""
