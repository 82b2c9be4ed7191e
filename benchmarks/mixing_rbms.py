"""The package `rbms` beside `benchmarks.mixing`: its own sweeps, exchanges and annealing on the same machines.

A machine of each case, trained as there ("data's fields, along training"), is handed to `rbms` and sampled by its
`sample_state`, and by rounds of that and its `swap_configurations` at temperatures spaced evenly in ln T from 1 to 5, as many
as ours. Its `pt_sampling`, which looks for temperatures itself, is called once to see whether it runs. Then ln Z by its
annealing beside the exact one, where 20 hidden neurons let that be summed.
`python -m benchmarks.mixing_rbms planted-1` is one case.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import jax.numpy as jnp
import numpy as np

import equilibria as eq
from benchmarks.mixing import CASES, CHAINS, MOST, SAMPLED, SWEEPS, Case, cluster, counted, titled, trained

_TEMPERATURES, _BETAS = 5.0, 3000


def theirs(network: eq.Network) -> Any:
    """The machine as one of `rbms`."""
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM

    weights = network.couplings[0].matrix()
    biases = (layer.bias for layer in network.layers)
    return BBRBM(*(torch.from_numpy(np.array(part, np.float32)) for part in (weights, *biases)))


def sampled(case: Case, machine: Any, rungs: int, seed: int = 0) -> str:
    """The numbers of a row: chains from noise and from data, swept and, with several rungs, exchanged."""
    import torch
    from rbms.sampling.pt import swap_configurations

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 2, (CHAINS, case.rows.shape[1])).astype(np.float32)
    start = np.concatenate([noise, case.rows[rng.choice(len(case.rows), CHAINS)]])
    betas = torch.tensor(_TEMPERATURES ** -np.linspace(0, 1, rungs), dtype=torch.float32)
    shown = {"visible": torch.from_numpy(start), "weights": torch.ones(len(start))}
    chains = [machine.sample_hiddens(dict(shown)) for _ in range(rungs)]
    seen = np.zeros((SWEEPS // 2, *start.shape), np.uint8)
    with torch.no_grad():
        for step in range(SWEEPS):
            chains = [
                machine.sample_state(chain, 1, beta=float(beta)) for chain, beta in zip(chains, betas, strict=True)
            ]
            if rungs > 1:
                chains, _, _ = swap_configurations(chains, machine, betas)
            if step >= SWEEPS // 2:
                seen[step - SWEEPS // 2] = chains[0]["visible"].numpy()
    centres = jnp.asarray(case.centres)
    labels = np.stack([np.asarray(cluster(jnp.asarray(rows, float), centres)) for rows in seen])
    along = np.stack([rows @ (case.centres[0] - case.centres[-1]) for rows in seen.astype(np.float32)])
    # Two products in a sweep; both free energies of each pair of neighbours.
    return counted(case, labels, along, 2.0 if rungs == 1 else 4.0 * rungs - 2)


def annealed(machine: Any) -> list[float]:
    """ln Z by its annealing, five times: it reports no error."""
    import torch
    from rbms.partition_function.ais import compute_partition_function_ais

    found = []
    for seed in range(5):
        torch.manual_seed(seed)
        found.append(float(compute_partition_function_ais(100, _BETAS, machine)))
    return found


def own_search(machine: Any) -> str:
    """What its own search for temperatures does."""
    from rbms.sampling.pt import pt_sampling

    try:
        _, temperatures, _ = pt_sampling(10, 1, 0.3, 10, machine, "", False)
    except Exception as error:  # whatever it is, it is what a user would see
        return f"{type(error).__name__}: {error}"
    return f"{len(temperatures)} temperatures"


def report(name: str) -> None:
    """The rows of one case."""
    case = CASES[name]()
    print(f"\n{titled(name, case)}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        network, _, _ = trained(case, SAMPLED[0], folder)
        rungs = min(len(eq.Trajectory(folder)) + 1, MOST)
    machine = theirs(network)
    print(f"pt_sampling: {own_search(machine)}\n")
    if case.hidden <= 20:
        values = np.array(annealed(machine))
        truth = eq.log_partition(network).value
        print(
            f"ln Z {truth:.2f} exactly, {values.mean():.2f} ± {values.std(ddof=1):.2f} annealed by rbms\n", flush=True
        )
    print(f"| sweeps | {sampled(case, machine, 1)} |", flush=True)
    print(f"| {rungs} temperatures | {sampled(case, machine, rungs)} |", flush=True)


def main(*names: str) -> None:
    """All cases, or those named."""
    try:
        import rbms  # noqa: F401
    except ImportError as error:
        print(f"rbms: not installed ({error}); left out")
        return
    for name in [name for name in names if name in CASES] or CASES:
        report(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
