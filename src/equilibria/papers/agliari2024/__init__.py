"""E. Agliari, "Machine learning: from mammal's brain to statistical mechanics", school "Bruno Touschek", Frascati 2024."""
