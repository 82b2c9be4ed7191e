"""What would take most of the suite's time: compiled code is shared between the two test processes, compiled in haste, and
pictures are drawn where they are looked at."""

import os
from pathlib import Path

import haste

# An environment that has XLA_FLAGS keeps them: `make test-slow` compiles as users do.
os.environ.setdefault("XLA_FLAGS", haste.FLAGS)

import jax
import pytest
from matplotlib.figure import Figure

_written = Figure.savefig
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
    """What was compiled is let go once it holds a gigabyte and a half: it comes back from disk in milliseconds.

    Each compiled function also maps memory, of which Linux lets a process have 65,530 pieces.
    """
    yield
    usage = Path("/proc/self/statm")
    if not usage.exists() or int(usage.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > 1.5e9:
        jax.clear_caches()


@pytest.fixture(autouse=True)
def _empty_pictures(request, monkeypatch):
    """To lay a picture out takes longer than to train what it shows: those of tests not marked `pictures` are empty files."""
    if not request.node.get_closest_marker("pictures"):
        monkeypatch.setattr(Figure, "savefig", lambda self, *where, **how: _written(Figure((1, 1)), *where, **how))
