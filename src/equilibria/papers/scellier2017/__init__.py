"""Scellier and Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179)."""
