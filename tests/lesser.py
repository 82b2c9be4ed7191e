"""Run the tests as a processor without AVX-512 would: `python tests/lesser.py [what pytest takes]`.

XLA, NumPy and the linear algebra below it each choose their code by the processor, and round otherwise on another one. A test
that compares computed numbers bit for bit without being promised that they are equal fails here, or on the other side.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import haste


def to_disable() -> str:
    """The parts of NumPy's code that need more than AVX2 and would run here; it refuses or warns about any other name."""
    from numpy._core import _multiarray_umath as numpy_core

    parts, there = numpy_core.__cpu_dispatch__, numpy_core.__cpu_features__
    return ",".join(part for part in parts if there[part] and (part.startswith("AVX512") or part == "X86_V4"))


def environment(given: Mapping[str, str], disabled: str) -> dict[str, str]:
    """What the tests run in; compiled code has a folder of its own, for that of another processor must not be used.

    >>> environment({"XLA_FLAGS": "--xla_a"}, "AVX512_SKX")["XLA_FLAGS"]
    '--xla_a --xla_cpu_max_isa=AVX2'
    >>> environment({}, "")["XLA_FLAGS"].startswith(haste.FLAGS)  # as `make test` compiles on such a processor
    True
    """
    changes = {
        "XLA_FLAGS": f"{given.get('XLA_FLAGS', haste.FLAGS)} --xla_cpu_max_isa=AVX2".strip(),
        "OPENBLAS_CORETYPE": "Haswell",
        "EQUILIBRIA_TEST_CACHE": str(Path(__file__).parent / ".compiled-lesser"),
    }
    return {**given, **changes, **({"NPY_DISABLE_CPU_FEATURES": disabled} if disabled else {})}


if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    os.execve(sys.executable, command, environment(os.environ, to_disable()))
