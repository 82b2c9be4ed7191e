"""How parameters change: one contract for rules, one loop for all of them."""
