"""Equilibrium propagation: minibatches against PyTorch with the same sweeps, epochs, and coming to rest.

The rivals are an eager loop of our own and the library energy-based-learning, which is on no package index: the variable
ENERGY_BASED_LEARNING names the folder of a copy (github.com/rain-neuromorphics/energy-based-learning). Who is not there is left
out, and that is said. MNIST is looked for where `equilibria.data.mnist` finds it; random images, which take the same work,
stand in for it where it is not there.

    ENERGY_BASED_LEARNING=path/to/energy-based-learning python -m benchmarks eqprop
"""

from __future__ import annotations

import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

import equilibria as eq
from benchmarks._timing import race, table
from equilibria.equilibrators.descent import Descent
from equilibria.learn.loop import Loop

# Sizes, free sweeps, nudged sweeps.
CASES = {
    "784-1024-10": ((784, 1024, 10), 15, 15),
    "784-1024-1024-10": ((784, 1024, 1024, 10), 50, 20),
    "784-1024-1024-1024-10": ((784, 1024, 1024, 1024, 10), 100, 10),
}
BATCH = 16
NUDGE = 0.5


def images(examples: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and one-hot targets."""
    try:
        found = eq.data.mnist()
        inputs, labels = eq.data.grey(found.train_images[:examples]), found.train_labels[:examples]
    except (FileNotFoundError, OSError):
        random = np.random.default_rng(0)
        inputs, labels = random.random((examples, 784), np.float32), random.integers(0, 10, examples)
    return inputs, np.eye(10, dtype=np.float32)[labels]


class Ours:
    """Compiled steps of a recipe on a network, `steps` at a time."""

    def __init__(self, network: eq.Network, recipe, data, batch_size: int, steps: int, rate: float = 0.05):
        loop = Loop(recipe, recipe.prepared(network, data), jax.random.key(0), batch_size, learning_rate=rate)
        self.advance, self.data, self.key, self.steps = loop.advance, loop.data, loop.step_keys, steps
        self.carry = loop.begun(network)

    def __call__(self) -> None:
        until = self.carry.step + self.steps
        self.carry, _, _ = self.advance(self.carry, self.data, until, self.key)
        jax.block_until_ready(self.carry)


def torch_loop(network: eq.Network, data, free: int, nudged: int, steps: int, rate: float = 0.05):
    """The same minibatches in eager PyTorch: the input's drive once per phase, block sweeps, centered nudging."""
    import torch

    inputs, targets = (torch.from_numpy(np.ascontiguousarray(part)) for part in data)
    weights = [torch.from_numpy(np.array(coupling.weights)) for coupling in network.couplings]
    biases = [torch.from_numpy(np.array(layer.bias)) for layer in network.layers[1:]]
    depth, place = len(weights), [0]
    order = [layer for parity in (1, 0) for layer in range(depth) if (depth - layer) % 2 == parity]

    def sweep(state, drive, nudge, target):
        for layer in order:
            field = drive if layer == 0 else state[layer - 1] @ weights[layer] + biases[layer]
            if layer < depth - 1:
                field = field + state[layer + 1] @ weights[layer + 1].T
            elif nudge:
                field = (field + nudge * target) / (1 + nudge)
            state[layer] = field.clamp(0, 1)

    def step():
        here = slice(place[0] * BATCH, (place[0] + 1) * BATCH)
        place[0] = (place[0] + 1) % (len(inputs) // BATCH)
        x, y = inputs[here], targets[here]
        drive = x @ weights[0] + biases[0]
        rest = [torch.zeros(BATCH, len(bias)) for bias in biases]
        for _ in range(free):
            sweep(rest, drive, 0.0, y)
        ends = []
        for nudge in (NUDGE, -NUDGE):
            state = list(rest)
            for _ in range(nudged):
                sweep(state, drive, nudge, y)
            ends.append(state)
        for layer in range(depth):
            below = [x, x] if layer == 0 else [end[layer - 1] for end in ends]
            change = below[0].T @ ends[0][layer] - below[1].T @ ends[1][layer]
            weights[layer] += rate / (2 * NUDGE * BATCH) * change
            biases[layer] += rate / (2 * NUDGE) * (ends[0][layer] - ends[1][layer]).mean(0)

    def run() -> None:
        with torch.no_grad():
            for _ in range(steps):
                step()

    return run


def energy_based_learning(network: eq.Network, data, free: int, nudged: int, steps: int, rate: float = 0.05):
    """The same minibatches by the trainer of energy-based-learning, from our weights, its layers in two groups a sweep.

    Its outputs are clipped like ours. A nudged output goes step by step to where ours is put at once, with the same products.
    """
    import torch

    if "ENERGY_BASED_LEARNING" not in os.environ:
        raise ImportError("the variable ENERGY_BASED_LEARNING names no folder")
    sys.path.insert(0, os.environ["ENERGY_BASED_LEARNING"])
    try:
        from model.function.cost import SquaredError
        from model.function.interaction import SumSeparableFunction
        from model.function.network import Network
        from model.hopfield.minimizer import FixedPointMinimizer
        from model.hopfield.network import create_edge, create_layer
        from training.epoch import Trainer
        from training.sgd import AugmentedFunction, EquilibriumProp
    finally:
        del sys.path[0]

    kinds = ["input", *["hard-sigmoid"] * len(network.couplings)]
    layers = [create_layer((layer.size,), kind) for layer, kind in zip(network.layers, kinds, strict=True)]
    edges = [create_edge(layers, "bias", [place], 0.0) for place in range(1, len(layers))]
    edges += [create_edge(layers, "dense", [place, place + 1], 1.0) for place in range(len(network.couplings))]
    values = [layer.bias for layer in network.layers[1:]] + [coupling.weights for coupling in network.couplings]
    for (parameter, _), value in zip(edges, values, strict=True):
        parameter.state = torch.from_numpy(np.array(value))
    parameters = [parameter for parameter, _ in edges]
    energy = SumSeparableFunction(layers, parameters, [interaction for _, interaction in edges])
    energy.set_device("cpu")
    cost, machine = SquaredError(layers[-1]), Network(energy)
    augmented = AugmentedFunction(energy, cost)
    towards = FixedPointMinimizer(augmented, machine.free_layers(), nudged)
    estimator = EquilibriumProp(parameters, layers, augmented, cost, towards, variant="centered", nudging=NUDGE)
    inputs, labels = torch.from_numpy(np.ascontiguousarray(data[0])), torch.from_numpy(data[1].argmax(1))
    batches = list(zip(inputs.split(BATCH), labels.split(BATCH), strict=True))[:steps]
    optimiser = torch.optim.SGD([parameter.state for parameter in parameters], lr=rate)
    rest = FixedPointMinimizer(energy, machine.free_layers(), free)
    return Trainer(machine, cost, parameters, batches, estimator, optimiser, rest).run


def minibatches(rounds: int = 5) -> None:
    """Milliseconds per minibatch of 16 on the three architectures, ours and PyTorch's on the same sweeps."""
    data = images(3200)
    for name, (sizes, free, nudged) in CASES.items():
        network = eq.layered(sizes, gain=0.5, key=0)
        steps = {15: 40, 50: 4, 100: 2}[free]
        same = eq.equilibrium_propagation(
            NUDGE, free=eq.Sweeps(free, update="mode"), nudged=eq.Sweeps(nudged, update="mode")
        )
        own = eq.equilibrium_propagation(NUDGE, free=Descent(free, tolerance=1e-3), nudged=Descent(8, 0.3))
        rivals = {
            "ours, same sweeps": Ours(network, same, data, BATCH, steps),
            "ours, own stopping": Ours(network, own, data, BATCH, steps),
        }
        for rival, make in {"PyTorch, eager": torch_loop, "energy-based-learning": energy_based_learning}.items():
            try:
                rivals[rival] = make(network, data, free, nudged, steps)
            except ImportError as error:
                print(f"{rival}: left out, {error}")
        seconds = {rival: values / steps for rival, values in race(rivals, rounds).items()}
        print(f"\n{name}, minibatch of {BATCH}, {free} free and {nudged} nudged sweeps")
        print(table(seconds, "ours, same sweeps"))
        print(
            "cosine with the exact gradient:",
            {key: round(value, 4) for key, value in cosines(network, data, same, own).items()},
        )


def cosines(network: eq.Network, data, same, own) -> dict[str, float]:
    """Of each recipe's gradient with that of phases that have come to rest, on one batch of 64.

    The exact gradient itself is no measure with clipped outputs: it vanishes where they sit at 0, as most do at first.
    """
    batch = dict(zip(("input", "output"), (jnp.asarray(part[:64]) for part in data), strict=True))
    exact = eq.equilibrium_propagation(
        NUDGE, free=Descent(1000, tolerance=1e-6), nudged=eq.Sweeps(500, update="mode", tolerance=1e-6)
    )

    def gradient(rule):
        found = rule.step(
            network, batch, carry=rule.begin(network, batch, 64, jax.random.key(0)), key=jax.random.key(0)
        )
        return np.concatenate([np.ravel(coupling.weights) for coupling in found.gradient.couplings])

    wanted = gradient(exact)
    rules = {"same sweeps": same, "own stopping": own}
    vectors = {name: gradient(rule) for name, rule in rules.items()}
    return {name: float(v @ wanted / np.linalg.norm(v) / np.linalg.norm(wanted)) for name, v in vectors.items()}


def epoch(examples: int = 50_000, steps: int = 500) -> None:
    """Seconds per epoch of 784-500-10 with the paper's schedule: batches of 20, 20 and 4 Euler steps, persistent particles."""
    recipe = eq.equilibrium_propagation(
        1.0, free=eq.GradientFlow(20), nudged=eq.GradientFlow(4), symmetric=False, random_sign=True, particles=True
    )
    run = Ours(eq.layered((784, 500, 10), key=0), recipe, images(examples), 20, steps)
    seconds = np.median(race({"ours": run}, 3)["ours"]) / steps * (examples // 20)
    print(f"\n784-500-10, the paper's schedule: {seconds:.2f} s for an epoch of {examples} (wanted: at most 4)")


def trained(depth: int = 3, size: int = 500, epochs: int = 1, examples: int = 10_000) -> tuple[eq.Network, np.ndarray]:
    """A network after a short training, and inputs it has not seen."""
    from equilibria.learn.rates import scale_by_coupling

    inputs, targets = images(examples + 100)
    network = eq.layered((784, *[size] * depth, 10), gain=0.5, key=0)
    recipe = eq.equilibrium_propagation(NUDGE, free=Descent(15, tolerance=1e-3), nudged=eq.Sweeps(8, update="mode"))
    optimiser = optax.chain(optax.sgd(1.0), scale_by_coupling((0.4, 0.2, 0.05, 0.01)))
    run = eq.train(
        network, (inputs[:-100], targets[:-100]), recipe, epochs=epochs, batch_size=20, optimiser=optimiser, key=1
    )
    return run.network, inputs[-100:]


def relaxation(tolerance: float = 1e-3) -> None:
    """Matrix products until no neuron is further than `tolerance` from its rest given the others, three hidden layers."""
    network, inputs = trained()
    ways = {
        "Euler, step 0.5": eq.GradientFlow(1),
        "block descent": Descent(1, 0.0),
        "overshoot 0.3": Descent(1, 0.3),
        "overshoot 0.5": Descent(1, 0.5),
        "overshoot 0.7": Descent(1, 0.7),
    }
    counts = {name: products(network, how, inputs, tolerance) for name, how in ways.items()}
    print(f"\nto a residual of {tolerance:g}, {len(network.layers) - 2} hidden layers of {network.layers[1].size}")
    print(f"{'':20} {'products':>9} {'fewer than Euler':>17}")
    for name, count in counts.items():
        print(f"{name:20} {count:9d} {counts['Euler, step 0.5'] / count:17.1f}")


def products(network: eq.Network, how, inputs: np.ndarray, tolerance: float, most: int = 2000) -> int:
    """Products with a coupling between free layers, there and back, until the projected force is below `tolerance`."""
    clamp, state = eq.Clamp("input", inputs), None
    each = 2 * (len(network.couplings) - 1)
    for step in range(1, most + 1):
        state = eq.equilibrate(network, how, state, world=clamp).state
        rests = {layer.name: layer.unit.mode(network.field(state, layer.name)) for layer in network.layers[1:]}
        if max(float(jnp.abs(rest - state[name]).max()) for name, rest in rests.items()) <= tolerance:
            return step * each
    return most * each


def main() -> None:
    """All tables."""
    began = time.perf_counter()
    minibatches()
    epoch()
    relaxation()
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
