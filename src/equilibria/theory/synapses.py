r"""How much data it takes to learn binary synapses: thresholds of the data density $\alpha = M/N$.

P planted fields of pairwise overlap q give data with covariance
$1 + \frac{\beta^2}{N} \sum_{\mu\nu} K_{\mu\nu}\, \xi^\mu \xi^{\nu T}$, where $K_{\mu\nu} = \langle h_\mu h_\nu \rangle$
in the law $p(h) \propto e^{\beta^2 h^T Q h/2}$ of the hidden units and $Q_{\mu\nu} = \frac1N \xi^\mu \cdot \xi^\nu$:
given h the neurons are independent, and $\prod_i \cosh(\beta \sum_\mu \xi_i^\mu h_\mu/\sqrt N)$ is $e^{\beta^2 h^T Q
h/2}$ up to a constant. The largest eigenvalue of $\beta^2 K Q$ is the `spike`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from equilibria.check import count as whole
from equilibria.check import number, refuse


def synapse_spike(correlation: ArrayLike = 0.0, temperature: ArrayLike = 1.0, count: int = 2) -> np.ndarray:
    r"""How far the largest eigenvalue of the data's covariance lies above 1, for many neurons.

    $\beta^2 (1 + (P-1) q)(1 + (P-1) \kappa)$ or, for q < 0, $\beta^2 (1 - q)(1 - \kappa)$; $\kappa$ is $\langle h_1 h_2
    \rangle$.

    Args:
        correlation: q of every pair of fields.
        temperature: $1/\beta$ > 0; the two broadcast.
        count: P, how many fields.

    Returns:
        The spike.

    Raises:
        ValueError: if an argument is out of its range, or no fields have such a correlation.

    >>> float(synapse_spike(0.3).round(6)), float(np.round(1.3 * (1 + np.tanh(0.3)), 6))
    (1.678706, 1.678706)
    """
    count = whole("count", count)
    number("correlation", correlation, least=-1, most=1)
    number("temperature", temperature, above=0)
    q, warmth = (np.asarray(x, np.float64)[..., None] for x in np.broadcast_arrays(correlation, temperature))
    if (1 + (count - 1) * q < 0).any():
        refuse("correlation", f"{q.min():g} for {count} fields", f">= {-1 / (count - 1):g}: no fields have less")
    up = np.arange(count + 1.0)
    total = 2 * up - count
    ways = gammaln(count + 1) - gammaln(up + 1) - gammaln(count - up + 1)
    logs = ways + q * total**2 / (2 * warmth**2)
    square = np.exp(logs - logsumexp(logs, axis=-1, keepdims=True)) @ total**2
    kappa = (square - count) / max(count * (count - 1), 1)
    q, warmth = q[..., 0], warmth[..., 0]
    together = (1 + (count - 1) * q) * (1 + (count - 1) * kappa)
    apart = (1 - q) * (1 - kappa) if count > 1 else together
    return np.maximum(together, apart) / warmth**2


def synapse_threshold(
    correlation: ArrayLike = 0.0, temperature: ArrayLike = 1.0, count: int = 2, *, informed: bool = False
) -> np.ndarray:
    r"""The data density M/N above which planted receptive fields can be learned, for many neurons.

    Near no knowledge at all a learner turns overlaps T with the planted fields into $\alpha\beta^2\, T\, (\beta^2 K Q)$:
    the first factor is its own idea of the signal, the second the data's. A learner whose prior is that fields are
    independent, as in Huang 2019, has $\beta^2$ for the first, and learns above

    $$ \alpha_c = \frac{1}{\beta^2\, \mathrm{spike}} = \frac{\beta^{-4}}{(1 + |q|)(1 + \tanh \beta^2 |q|)} \quad (P = 2). $$

    One that knows q has the spike for both, $\alpha_c = 1/\mathrm{spike}^2$ (`informed`): this is where the largest
    eigenvector of the sample covariance begins to point at the fields (Baik, Ben Arous and Peche 2005). Without
    correlation both are $\beta^{-4}$ for any number of fields.

    Args:
        correlation: q of every pair of fields.
        temperature: $1/\beta$ > 0; the two broadcast.
        count: P, how many fields.
        informed: whether the learner knows q.

    Returns:
        The data density.

    Raises:
        ValueError: if an argument is out of its range, or no fields have such a correlation.

    >>> synapse_threshold([0.0, 0.3]).round(3), float(synapse_threshold(0.3, informed=True).round(3))
    (array([1.   , 0.596]), 0.355)
    """
    spike = synapse_spike(correlation, temperature, count)
    return 1 / (spike * (spike if informed else np.asarray(temperature, np.float64) ** -2.0))
