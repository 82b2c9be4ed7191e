"""Importing and naming things never computes."""

import subprocess
import sys

CODE = """
import sys
import equilibria as eq
for name in dir(eq.theory):
    getattr(eq.theory, name)
eq.data.digits, eq.data.random_patterns, eq.data.parse_idx
from jax._src import xla_bridge
sys.exit(bool(xla_bridge._backends))
"""


def test_naming_theory_and_data_does_not_start_the_back_end_of_jax():
    assert subprocess.run([sys.executable, "-c", CODE]).returncode == 0
