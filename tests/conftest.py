"""Compiled code is shared between test runs and between the two test processes."""

import os
from pathlib import Path

import jax
import pytest

_SHARED = Path(__file__).parents[2] / "shared" / "data"

jax.config.update(
    "jax_compilation_cache_dir", os.environ.get("EQUILIBRIA_TEST_CACHE", str(Path(__file__).parent / ".compiled"))
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
if "EQUILIBRIA_DATA" not in os.environ and _SHARED.is_dir():
    os.environ["EQUILIBRIA_DATA"] = str(_SHARED)


@pytest.fixture(scope="module", autouse=True)
def _few_compiled_functions():
    """Each compiled function maps memory, of which Linux lets a process have 65,530 pieces: a thousand tests use them up."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()
