"""Sleep as a process: couplings revised night by night, until memories no longer disturb one another."""

from __future__ import annotations

import numpy as np

from equilibria import check
from equilibria.couplings import Factored, filtered
from equilibria.network import Network


def dream(network: Network, nights: int, *, rate: float = 1.0) -> Network:
    r"""The network after `nights` of consolidation and removal, one after another.

    $$ J^{(n)} = J^{(n-1)} + \frac{\epsilon}{1 + \epsilon n} \left[J^{(n-1)} - (J^{(n-1)})^2\right] $$

    with $\epsilon$ the `rate`, 1 in the lecture (Agliari 2024, "Patterns' revision"). It is Euler's scheme for the flow that
    `hopfield(patterns, sleep=t)` solves exactly, which it approaches as the rate goes to 0 at $t = \epsilon n$. Each eigenvalue
    $\lambda$ of J changes by itself; it stays positive if and only if $\epsilon(\lambda - 2) < 1$ at the beginning, and runs
    away to $-\infty$ otherwise. At rate 1 that takes $\lambda > 3$, which random patterns have at loads above 0.536.

    The network must have factored couplings within its layers, as `hopfield` and `hopfield_from_examples` make them.

    >>> import equilibria as eq
    >>> patterns = eq.data.random_patterns(20, 100, key=eq.key(0))
    >>> slow, exact = dream(eq.hopfield(patterns), 500, rate=0.01), eq.hopfield(patterns, sleep=5.0)
    >>> bool(abs(slow.couplings[0].factors - exact.couplings[0].factors).max() < 0.01)
    True
    """
    check.count("nights", nights)
    check.number("rate", rate, above=0.0)
    if not any(isinstance(coupling, Factored) for coupling in network.couplings):
        check.refuse("network", f"couplings {network.couplings}", "a factored coupling, as in eq.hopfield(patterns)")

    def gain(values: np.ndarray) -> np.ndarray:
        largest = values.max()
        if rate * (largest - 2) >= 1:
            bound = 1 / (largest - 2)
            check.refuse(
                "rate",
                f"{rate:g} with a coupling whose largest eigenvalue is {largest:.4g}: the iteration diverges",
                f"a rate below {bound:.4g}, or eq.hopfield(patterns, sleep=...), which is exact and always stable",
            )
        kept = np.ones_like(values)
        for night in range(1, nights + 1):
            kept *= 1 + rate / (1 + rate * night) * (1 - kept * values)
        return kept

    return Network(
        network.layers,
        [
            Factored(coupling.ends, filtered(coupling.factors, gain)) if isinstance(coupling, Factored) else coupling
            for coupling in network.couplings
        ],
    )
