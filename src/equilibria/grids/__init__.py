"""Parameter sweeps, on one machine or a cluster, with results kept."""
