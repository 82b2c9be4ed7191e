"""Which programs JAX compiles in a block of code, small ones and those read from a cache included."""

import contextlib
import logging

import jax


class _Listener(logging.Handler):
    def __init__(self, found):
        super().__init__()
        self.found = found

    def emit(self, record):
        if str(record.msg).startswith("Finished XLA compilation"):
            self.found.append(record.getMessage().split(" of ")[1].rpartition(" in ")[0])


@contextlib.contextmanager
def compilations():
    """The names of the programs that are compiled inside the block, in a list that grows."""
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
