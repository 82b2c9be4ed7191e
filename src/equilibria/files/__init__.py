"""Everything that is written or read: atomic writes, checkpoints, labelled results, the state of runs."""

from equilibria.files.arrays import Checkpoint, CheckpointError, NewerFormatError, write
from equilibria.files.atomic import StorageError, check_writable, replacing, sweep, write_atomic, write_once
from equilibria.files.checkpoint import inside, latest, load, save, set_aside
from equilibria.files.dataset import load_dataset, save_dataset
from equilibria.files.identity import Unseen, fingerprint
from equilibria.files.lock import locked

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "NewerFormatError",
    "StorageError",
    "Unseen",
    "check_writable",
    "fingerprint",
    "inside",
    "latest",
    "load",
    "load_dataset",
    "locked",
    "replacing",
    "save",
    "save_dataset",
    "set_aside",
    "sweep",
    "write",
    "write_atomic",
    "write_once",
]
