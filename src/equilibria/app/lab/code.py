"""Show the code: the lines of Python that do what a room does, with the values of its dials, from public names only."""

from __future__ import annotations

from typing import Any


def _joined(*parts: str) -> str:
    return "\n".join(part.strip("\n") for part in parts if part) + "\n"


_DIGITS = """
patterns = eq.data.binarise(eq.data.mnist_small().train_images[:{count}])
"""
_RANDOM = """
patterns = eq.data.random_patterns(784, 784, key=eq.key({seed}))[:{count}]
"""
_MINE = """
texts = [
{texts}
]
mine = [np.unpackbits(np.frombuffer(base64.urlsafe_b64decode(text), np.uint8)) for text in texts]
patterns = 2.0 * np.array(mine) - 1
"""
_FILL = """
patterns = np.concatenate([patterns, eq.data.random_patterns(784, 784, key=eq.key({seed}))[: {rest}]])
"""
_CUE = """
neurons = eq.data.corrupt(patterns[{target}], flips={flips:g}, masked={masked:g}, key=eq.key({seed} + 1))
"""
_DRAWN = """
cue = "{cue}="
neurons = 2.0 * np.unpackbits(np.frombuffer(base64.urlsafe_b64decode(cue), np.uint8)) - 1
"""
_RECALL = """
network = eq.hopfield(patterns, sleep={sleep:g})
for sweep in range({sweeps}):
    key = jax.random.fold_in(eq.key({seed} + 2), sweep)
    how = eq.Sweeps(1, order="{order}")
    neurons = eq.equilibrate(network, how, neurons, temperature={temperature:g}, key=key)["neurons"]
    print(sweep + 1, eq.overlap(neurons, patterns[{target}]))
print("theory", eq.theory.hopfield(len(patterns) / 784, {temperature:g}, {sleep:g}).m)
"""


def remember(state: dict[str, Any], count: int, target: int, sweeps: int = 20) -> str:
    """The recall of the room "remember"."""
    own = [text for text in state["mine"].split(".") if text] if state["patterns"] == "mine" else []
    given = {
        **state,
        "count": count,
        "target": target,
        "sweeps": sweeps,
        "texts": "\n".join(f'    "{text}=",' for text in own),
    }
    kind = _DIGITS if state["patterns"] == "digits" else _MINE if own else _RANDOM
    decodes = bool(own or state["cue"])
    imports = ["import base64", ""] if decodes else []
    imports += ["import jax", "import numpy as np"] if decodes else ["import jax"]
    rest = count - len(own) if own else 0
    head = "\n".join([*imports, "", "import equilibria as eq", "", ""])
    return head + _joined(
        kind.format(**given),
        _FILL.format(rest=rest, **given) if rest else "",
        (_DRAWN if state["cue"] else _CUE).format(**given),
        _RECALL.format(**given),
    )


_NETWORK = {
    "hopfield": "    network = eq.hopfield(patterns, sleep={sleep:g})",
    "examples": """
    examples = eq.data.blurred_examples(patterns, {examples}, {quality:g}, key=eq.key(seed + 2))
    network = eq.hopfield_from_examples(examples, supervised={labels}, sleep={sleep:g})
""",
}
_THEORY = {
    "hopfield": "eq.theory.hopfield(load, temperature, {sleep:g}).m",
    "examples": "eq.theory.hopfield_examples(load, temperature, entropy=entropy, examples={examples}, {rest}).m",
}
_GRID = """
import numpy as np

import equilibria as eq

{entropy}for number, (load, temperature) in enumerate({cells}):
    seed = {seed} * 1000 + number
    patterns = np.asarray(eq.data.random_patterns(400, 400, key=eq.key(seed)))[: max(1, round(load * 400))]
{network}
    starts, keep = patterns[np.arange(8) % len(patterns)], lambda state: state["neurons"]
    _, path = eq.trajectory(network, eq.Sweeps(40), starts, observe=keep, temperature=temperature, key=eq.key(seed + 1))
    overlaps = np.mean(np.asarray(path) * starts, axis=(1, 2))
    measured = overlaps[-1] if temperature == 0 else overlaps[21:].mean()
    print(load, temperature, measured, "theory", {theory})
"""
_MODES = """
import numpy as np

import equilibria as eq

visible, hidden = 400, {hidden}
units = (visible * hidden) ** 0.5
for number, (noise, strength) in enumerate({cells}):
    seed = {seed} * 1000 + number
    random = np.random.default_rng(seed)
    u, v = random.standard_normal(visible), random.standard_normal(hidden)
    weights = strength * np.outer(u, v) / units + noise / units**0.5 * random.standard_normal((visible, hidden))
    network = eq.rbm(weights=weights, visible=eq.Spin(), hidden=eq.Spin())
    start, keep = {{"visible": np.sign(u), "hidden": np.sign(v)}}, lambda state: state["hidden"]
    _, path = eq.trajectory(network, eq.Sweeps(60), start, observe=keep, chains=8, key=eq.key(seed))
    measured = abs(v @ np.asarray(path)[20:].mean(axis=(0, 1))) / (hidden * units) ** 0.5
    print(noise, strength, measured, "theory", eq.theory.phase_diagram([noise], [strength], aspect={aspect:g}).hidden.item())
"""


def phases(state: dict[str, Any], cells: list[tuple[float, float]], sleep: float) -> str:
    """The grid of the room "phases"; one cell where no rectangle is chosen."""
    model, labels = state["model"], state["supervised"] == "labels"
    cells = cells or [(0.5, 1.5) if model == "modes" else (0.05, 0.2)]
    given = {**state, "cells": cells, "labels": labels, "sleep": sleep, "hidden": round(400 * state["aspect"])}
    if model == "modes":
        return _joined(_MODES.format(**given))
    entropy = f"entropy = eq.theory.dataset_entropy({state['quality']:g}, {state['examples']})\n" * (
        model == "examples"
    )
    given["rest"] = f"supervised={labels}, sleep={sleep:g}"
    parts = {"network": _NETWORK[model].format(**given).strip("\n"), "theory": _THEORY[model].format(**given)}
    return _joined(_GRID.format(entropy=entropy, **given, **parts))


_CLASSIFY = """
import numpy as np
import optax

import equilibria as eq

digits, ones = eq.data.digits(), np.eye(10, dtype=np.float32)
shades = eq.data.grey(digits.train_images)
mean, scale = shades.mean(axis=0), np.maximum(shades.std(axis=0), 0.2)
data = (shades - mean) / scale, ones[digits.train_labels]
network = eq.layered({sizes}, units=[eq.Gaussian(), {units}], gain=0.5, key=eq.key({seed}))
rule = eq.equilibrium_propagation({nudge:g}, free=eq.Descent(30), nudged=eq.Descent({sweeps}))
run = eq.train(network, data, rule, epochs={epochs}, batch_size=32, optimiser=optax.adam({rate:g}), key=eq.key({seed} + 1))
shown = eq.Clamp("input", (eq.data.grey(digits.test_images) - mean) / scale)
rest = eq.equilibrate(run.network, eq.Descent(30), world=shown, temperature=0.0)
print("test error", np.mean(np.argmax(rest["output"], axis=1) != digits.test_labels))
"""
_SYNAPSES = """
import numpy as np

import equilibria as eq

fields = eq.data.planted_receptive_fields({fields}, 100, {correlation:g}, key=eq.key({seed}))
data = eq.data.planted_data(fields, 600, key=eq.key({seed} + 1))
for density in {densities}:
    shown = np.asarray(data)[: max(2, round(density * 100))]
    run = eq.learn_synapses(shown, {fields}, steps={steps}, every=4, key=eq.key({seed} + 2))
    found = eq.match_fields(np.asarray(run.synapses.decoded).T, fields)
    print(density, "bound", float(run.history["bound"][-1]) / len(shown), "overlap", found.overlaps.mean())
print("threshold", eq.theory.synapse_threshold({correlation:g}, 1.0, {fields}))
"""


def classify(state: dict[str, Any]) -> str:
    """The training of the room "classify"."""
    sizes, units = (64, *[64] * state["layers"], 10), ", ".join(["eq.Clipped()"] * (state["layers"] + 1))
    return _joined(_CLASSIFY.format(**state, sizes=sizes, units=units))


def synapses(state: dict[str, Any]) -> str:
    """The runs of the room "synapses"."""
    densities = "(0.3, 0.6, 0.9, 1.2, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0)"
    return _joined(
        _SYNAPSES.format(**state, densities=densities if state["sweep"] == "all" else f"({state['density']:g},)")
    )


_ABOUT_MEDIANS = """
low, middle, high = np.percentile(values, [0, 50, 100], axis=0)
spins = np.where(values > np.where(middle == high, (low + high) / 2, middle), 1.0, -1.0)
data = spins[:, np.abs(spins.mean(axis=0)) < most]
""".lstrip()
_DATA = {
    "clusters": """
centre_key, sign_key, noise_key = jax.random.split(eq.key({seed}), 3)
centres = eq.data.random_patterns(3, 100, key=centre_key)[np.repeat(np.arange(3), [200, 133, 67])]
signs = eq.data.random_patterns(1, 400, key=sign_key)[0]
data = np.asarray(eq.data.blurred_examples(centres, 1, 0.8, key=noise_key)[:, 0] * signs[:, None])
""",
    "digits": """
values, most = eq.data.grey(eq.data.digits().train_images[:400]), 0.5
"""
    + _ABOUT_MEDIANS,
    "table": """
values, most = eq.data.read_table("my-table.csv").values[:400], 0.9
"""
    + _ABOUT_MEDIANS,
}
_TRAIN = """
weights = 0.01 * np.random.default_rng({seed}).normal(size=(data.shape[1], {hidden}))
machine = eq.rbm(weights=weights, visible=eq.Spin(), hidden=eq.Spin())

def weights_only(updates, _):
    return eqx.tree_at(lambda net: [layer.bias for layer in net.layers], updates, replace_fn=lambda bias: 0 * bias)

optimiser = optax.chain(optax.sgd({rate:g}), optax.stateless(weights_only))
rule = eq.pcd({sweeps}, 400, centered_gradient=False)
run = eq.train(machine, data, rule, steps={steps}, batch_size=len(data), optimiser=optimiser,
               metrics=eq.watch_spectrum(), key=eq.key({seed} + 2))
print(run.history["singular_values"].values[-1][:6])
print(eq.theory.marchenko_pastur_fit(run.network.couplings[0].matrix()))
print(eq.log_likelihood(run.network, data, "ais", chains=64, steps=300, key=eq.key({seed} + {steps})))
print(eq.diagnose(run.network, data, how=eq.Sweeps(800), chains=8, draws=200, key=eq.key({seed} + {steps})).verdict)
"""


def distribution(state: dict[str, Any]) -> str:
    """The training of the room "distribution"."""
    imports = [
        "import equinox as eqx",
        *["import jax"] * (state["data"] == "clusters"),
        "import numpy as np",
        "import optax",
    ]
    whole = "\n".join([*imports, "", "import equilibria as eq", ""]) + _DATA[state["data"]] + _TRAIN.lstrip("\n")
    return _joined(whole.format(**state))
