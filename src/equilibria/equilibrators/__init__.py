"""How a state comes to rest: one driver, and one class for each way."""
