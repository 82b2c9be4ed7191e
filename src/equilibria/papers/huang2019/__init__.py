"""Huang 2019: a variational principle for the synapses of a restricted Boltzmann machine."""
