"""Everything that is written or read: atomic writes, checkpoints, labelled results, the state of runs."""

from equilibria.files.atomic import replacing, write_atomic
from equilibria.files.checkpoint import Checkpoint, CheckpointError, inside, latest, load, save, write
from equilibria.files.dataset import load_dataset, save_dataset

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "inside",
    "latest",
    "load",
    "load_dataset",
    "replacing",
    "save",
    "save_dataset",
    "write",
    "write_atomic",
]
