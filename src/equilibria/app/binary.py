"""What `equilibria train synapses` does: a machine whose weights are -1 or +1."""

from __future__ import annotations

import dataclasses

import numpy as np

import equilibria as eq
from equilibria import check, files
from equilibria.app import pictures, runs
from equilibria.app.machines import checked
from equilibria.app.memory import as_spins
from equilibria.app.options import Synapses
from equilibria.app.training import going_on, read
from equilibria.app.watch import say
from equilibria.learn.stopping import REQUEUE


def train(options: Synapses) -> int:
    """Learn the distribution of binary weights, and leave the decoded machine in `out`/machine and in machine.safetensors."""
    split = read(options, "two-valued")
    spins = as_spins(split.rows)
    out, hidden = options.out, check.count("hidden", options.hidden)
    runs.begin(out, "synapses", dataclasses.asdict(options), split.features.described())
    limit = [] if options.time_limit is None else [eq.TimeLimit(options.time_limit)]
    count = len(spins)
    batch = None if options.batch_size >= count else check.count("batch_size", options.batch_size)
    steps = options.epochs * (1 if batch is None else count // batch)
    if steps > (runs.step_of(out) or 0):
        for name in runs.put_aside(out):
            say(f"  {name}: of the machine as it was before it went on, and renamed so")
    with going_on(out):
        run = eq.learn_synapses(
            spins,
            hidden,
            steps=steps,
            how=None if options.e_step == "auto" else options.e_step,
            batch_size=batch,
            learning_rate=options.learning_rate,
            every=max(steps // 100, 1),
            callbacks=[eq.OnSignal(), *limit],
            checkpoint=out,
            resume=options.resume,
            key=options.seed,
        )
    files.save_dataset(out / "history.nc", run.history)
    if run.stopped is not None:
        say(f"{out}: stopped, {run.stopped}; checkpoint and history.nc are there, --resume goes on")
        return REQUEUE
    network = run.synapses.network()
    eq.save_network(out / "machine", network)
    size = eq.save_synapses(out / "machine.safetensors", run.synapses)
    weights = np.asarray(run.synapses.mean)
    header = ["feature", *pictures.hidden_names(weights)]
    pictures.write_csv(out / "filters.csv", header, split.features.names, weights)
    checked(network, spins, options.seed, options.quiet)
    bound = f"bound {float(run.history['bound'][-1]):.2f}, " if "bound" in run.history else ""
    say(f"{out}: {steps} steps, {bound}{weights.size:,} weights of one bit in {size:,} bytes (machine.safetensors)")
    return 0
