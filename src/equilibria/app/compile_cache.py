"""Compiled code that is kept from one run of the command line to the next."""

from __future__ import annotations

import os
from pathlib import Path


def cache_compilations() -> None:
    """Keep what JAX compiles in the user's cache folder, unless JAX has been told of another place.

    The folder is equilibria/compiled under XDG_CACHE_HOME, or under ~/.cache. It is called by the command line only:
    a library does not write into the home of those who import it.
    """
    import jax

    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(base / "equilibria" / "compiled"))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        # Reading one entry takes some milliseconds: worth it for what took longer than this to compile.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
