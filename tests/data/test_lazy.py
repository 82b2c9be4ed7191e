"""Importing and naming things never computes."""

import subprocess
import sys

CODE = """
import sys
import equilibria as eq
for room in (eq, eq.theory, eq.data, eq.estimators):
    for name in dir(room):
        getattr(room, name)
from jax._src import xla_bridge
sys.exit(bool(xla_bridge._backends))
"""


def test_naming_anything_does_not_start_the_back_end_of_jax():
    assert subprocess.run([sys.executable, "-c", CODE]).returncode == 0
