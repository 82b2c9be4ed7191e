"""A. Decelle, G. Fissore and C. Furtlehner, "Spectral dynamics of learning restricted Boltzmann machines", EPL 2017."""
