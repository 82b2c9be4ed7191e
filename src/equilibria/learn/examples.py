"""The examples whose log-likelihood stands in the history of a run that keeps networks."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping
from typing import Any

import equinox as eqx
import numpy as np
from jax import Array

from equilibria.equilibrators.missing import completions
from equilibria.model.network import Network, State

_MOST = 1000


def coupled(network: Network, data: Container[str]) -> bool:
    """Whether layers without data are coupled to one another, so that they cannot be summed out.

    >>> import equilibria as eq
    >>> coupled(eq.rbm(3, 2, key=0), ["visible"]), coupled(eq.layered((3, 2, 2), key=0), ["input"])
    (False, True)
    """
    hidden = {name for name in network.names if name not in data}
    return any(set(coupling.ends) <= hidden for coupling in network.couplings)


class Examples:
    """Up to 1,000 examples, with what is missing in them summed out.

    Where so much is missing that nobody sums over it, those that miss nothing are left, and a warning says so.

    Args:
        name: of the data, for the warning.
        network: what they are to be seen by.
        data: by layer, as rules prepare them.

    >>> import equilibria as eq
    >>> machine = eq.rbm(4, 2, scale=0.0, key=0)
    >>> rows = Examples("train", machine, {"visible": np.array([[1.0, 0.0, 1.0, 1.0], [1.0, np.nan, 1.0, 0.0]])})
    >>> round(float(rows.mean_weight(machine, 1.0) / np.log(2)), 4)  # two hidden neurons, and in half of the rows one missing
    2.5
    """

    def __init__(self, name: str, network: Network, data: Mapping[str, Any]):
        rows = {layer: np.asarray(part[:_MOST], np.float32) for layer, part in data.items()}
        missing = np.any([np.isnan(part).any(1) for part in rows.values()], axis=0)
        self.whole = {layer: part[~missing] for layer, part in rows.items()}
        self.gaps = {layer: part[missing] for layer, part in rows.items()}
        if not missing.any():
            return
        try:
            completions(network, self.gaps, 1.0)
        except ValueError as error:
            left = f"only of the {int((~missing).sum())} examples that miss nothing"
            warnings.warn(f"the history has the log-likelihood of the {name} data {left}: {error}", stacklevel=2)
            self.gaps = {layer: part[:0] for layer, part in rows.items()}

    def __len__(self) -> int:
        return sum(len(next(iter(part.values()))) for part in (self.whole, self.gaps))

    def mean_weight(self, network: Network, temperature: Array | float) -> float:
        """The mean of -F/T: of ln p before ln Z is taken away."""
        found = []
        if len(next(iter(self.whole.values()))):
            found.append(np.asarray(_summed_out(network, self.whole, temperature)))
        if len(next(iter(self.gaps.values()))):
            found.append(completions(network, self.gaps, float(temperature)))
        return float(np.mean(np.concatenate(found), dtype=float))


@eqx.filter_jit
def _summed_out(network: Network, rows: State, temperature: Array | float) -> Array:
    hidden = [name for name in network.names if name not in rows]
    return -network.free_energy(rows, hidden, temperature) / temperature
