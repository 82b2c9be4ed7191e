"""The first sweep of the first room, compiled with as little imported as it needs."""

from __future__ import annotations

from collections.abc import Callable

FACTORS = 64  # of the first room's networks, at its default load


def first_sweep(meanwhile: Callable[[], None]) -> None:
    """Compile a sweep of 784 neurons.

    Args:
        meanwhile: called once everything is imported, just before the compiler begins.
    """
    import jax
    import numpy as np

    import equilibria as eq
    from equilibria.app.lab.catalogue import NEURONS

    spins = np.ones(NEURONS, np.float32)
    layer = eq.Layer("neurons", eq.Spin(), np.zeros(NEURONS))
    coupling = eq.Factored(("neurons", "neurons"), np.ones((FACTORS, NEURONS), np.float32))
    key = jax.random.fold_in(eq.key(0), 0)
    how = eq.Sweeps(1, order="random")
    eq.equilibrate  # noqa: B018 - imported now
    meanwhile()
    eq.equilibrate(eq.Network([layer], [coupling]), how, spins, temperature=0.4, show_progress=False, key=key)
