"""The Hopfield network at large N: Hebb's rule, dreaming, and learning from examples."""
