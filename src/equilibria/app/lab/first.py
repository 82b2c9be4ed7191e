"""What a visitor waits for: the first sweep of the first room, compiled with as little imported as it needs."""

from __future__ import annotations

import threading
from collections.abc import Callable


def first_sweep(meanwhile: Callable[[], None]) -> None:
    """Compile a sweep of 784 neurons.

    Args:
        meanwhile: called once everything is imported, just before the compiler begins.
    """
    import numpy as np

    import equilibria as eq
    from equilibria.app.lab.catalogue import NEURONS
    from equilibria.random import fold_in

    spins = np.ones(NEURONS, np.float32)
    layer = eq.Layer("neurons", eq.Spin(), np.zeros(NEURONS))
    coupling = eq.Factored(("neurons", "neurons"), np.ones((NEURONS, NEURONS), np.float32))
    key = fold_in(eq.key(0), 0)
    how = eq.Sweeps(1, order="random")
    eq.equilibrate  # noqa: B018 - imported now
    meanwhile()
    eq.equilibrate(eq.Network([layer], [coupling]), how, spins, temperature=0.4, show_progress=False, key=key)


def first_room(there: threading.Event) -> None:
    """Import the first room and make its network, then import its theory; all that while the sweep is compiled.

    Args:
        there: set once the network is made.
    """
    try:
        from equilibria.app.lab.rooms.remember import Remember

        Remember(Remember.plan.state({}), lambda message: None, {})._build()
    finally:
        there.set()
    import scipy.optimize  # noqa: F401

    import equilibria as eq

    eq.theory.hopfield, eq.theory.hopfield_lines  # noqa: B018 - imported now
