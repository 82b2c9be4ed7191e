"""Which programs JAX compiles in a block of code, small ones and those read from a cache included."""

import contextlib
import logging
from typing import NamedTuple

import jax


class Program(NamedTuple):
    """A program that was compiled: its name, and the shapes and types of what it takes, weak types like others."""

    name: str
    takes: str


class _Listener(logging.Handler):
    def __init__(self, found):
        super().__init__()
        self.found, self.takes = found, {}

    def emit(self, record):
        message = record.getMessage()
        if message.startswith("Compiling "):
            name, _, takes = message.removeprefix("Compiling ").partition(" with global shapes and types ")
            self.takes[name] = takes.partition(". Argument mapping")[0].replace(", weak_type=True", "")
        elif message.startswith("Finished XLA compilation"):
            name = message.split(" of ")[1].rpartition(" in ")[0]
            self.found.append(Program(name, self.takes[name]))


@contextlib.contextmanager
def compilations():
    """The programs that are compiled inside the block, in a list that grows."""
    found = []
    listener, logger = _Listener(found), logging.getLogger("jax")
    before, propagate = jax.config.jax_log_compiles, logger.propagate
    jax.config.update("jax_log_compiles", True)
    logger.addHandler(listener)
    logger.propagate = False
    try:
        yield found
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagate
        jax.config.update("jax_log_compiles", before)
