"""Distributions over binary weights: the bound they climb, the E-steps, the posterior itself."""
