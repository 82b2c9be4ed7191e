"""Random keys."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check


def as_key(key: Array | int) -> Array:
    """A typed JAX key, from a key or from a whole number as its seed.

    >>> as_key(0) == jax.random.key(0)
    Array(True, dtype=bool)
    """
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return jax.random.key(check.count("key", key, least=0))
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    if isinstance(key, jax.Array) and key.dtype == jnp.uint32 and key.shape[-1:] == (2,):
        return jax.random.wrap_key_data(key)
    check.refuse("key", repr(key), "a JAX random key, or a whole number >= 0 as its seed")
