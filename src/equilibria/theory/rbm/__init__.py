"""The restricted Boltzmann machine at large N: its spectrum, its states, its phases, and how it learns."""
