"""Functions for the tests of grids, in a module of their own so that worker processes can import them."""

import os
import time

import jax
import jax.numpy as jnp


def retrieval(size, temperature, seed, key):
    """Two parallel steps of a Hopfield network with its own patterns; `seed` only enters the key."""
    pattern_key, noise_key = jax.random.split(key)
    patterns = jax.random.rademacher(pattern_key, (4, size), float)
    state = patterns[0]
    for step in range(2):
        field = (patterns @ state) @ patterns / size
        noise = jax.random.logistic(jax.random.fold_in(noise_key, step), (size,)) / 2
        state = jnp.sign(field + temperature * noise)
    return {"overlap": state @ patterns[0] / size, "overlaps": jnp.tanh(patterns @ state)}


def logged(x, seed, log, pause=0.0):
    """Plain Python that leaves a line for each time it is computed."""
    note(log, x, seed)
    time.sleep(pause)
    return 10 * x + seed


def odd_ones_fail(x, seed, log):
    note(log, x, seed)
    if seed % 2:
        raise ValueError(f"seed {seed} is odd")
    return x + seed


def where(x, here):
    """A straight line, and whether another process than `here` computed it."""
    return {"y": 2.0 * x, "elsewhere": float(os.getpid() != here)}


def deadly(x, fatal, log):
    """Ends the process it runs in, as the kernel does when memory is short, at one point."""
    note(log, x, 0)
    if x == fatal:
        os._exit(9)
    return 2 * x


def deadly_once(x, log):
    """Ends its process at x = 3, the first time."""
    first = x not in [int(line.split()[0]) for line in lines(log)]
    note(log, x, 0)
    if x == 3 and first:
        os._exit(9)
    return 2 * x


def note(log, x, seed):
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{x} {seed}\n".encode())  # one write: lines of different processes do not mix
    finally:
        os.close(descriptor)


def lines(log):
    try:
        with open(log) as file:
            return file.read().split("\n")[:-1]
    except FileNotFoundError:
        return []
