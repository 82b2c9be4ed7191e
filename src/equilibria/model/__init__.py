"""What a system is: units, couplings, networks, and what the world imposes on them."""
