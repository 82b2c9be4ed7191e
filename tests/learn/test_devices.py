"""Training on several devices and in several processes is training on one, up to the order of floating-point sums.

After 15 steps of at most 0.05 x (a mean of numbers below 1) in single precision the weights can differ by some 15 roundings of
numbers below 0.1, each 1e-8: 1e-6 leaves room. Sampled chains are equal unless a draw falls within such a rounding of its
threshold, which for 1e4 draws has a probability of about 1e-3; the keys are fixed, so it happens always or never.
"""

import os
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

import equilibria as eq

COMMON = """
import sys
import jax, numpy as np, equilibria as eq

data = np.random.default_rng(0).choice([0.0, 1.0], (60, 12))
labels = np.eye(2)[np.arange(60) % 2]
machine, layers = eq.rbm(12, 8, key=0), eq.layered((12, 6, 2), key=0)
RUNS = {
    "pcd": (machine, data, eq.pcd(2)),
    "particles": (layers, (data, labels), eq.equilibrium_propagation(0.5, particles=True)),
}

def train(name, devices, epochs=5, **options):
    options = {"batch_size": 20, "learning_rate": 0.05, "key": 1, **options}
    return eq.train(*RUNS[name], epochs=epochs, devices=devices, **options)

def agree(first, second):
    for a, b in zip(jax.tree.leaves(first.network), jax.tree.leaves(second.network), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)
    for a, b in zip(jax.tree.leaves(first.carry), jax.tree.leaves(second.carry), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)
    np.testing.assert_allclose(first.history["contrast"], second.history["contrast"], rtol=0, atol=2e-6)
"""

MANY_DEVICES = (
    COMMON
    + """
folder = sys.argv[1]
assert jax.device_count() == 4

for name in RUNS:
    one = train(name, None)
    many = train(name, 4)
    agree(one, many)
    assert all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves(many.network))  # fit to go on with anywhere

# Written on four devices, gone on with on one, and then on two.
train("pcd", 4, epochs=2, checkpoint=folder)
train("pcd", None, epochs=3, checkpoint=folder, resume=True)
agree(train("pcd", None), train("pcd", jax.devices()[2:], checkpoint=folder, resume=True))

# Each device computes its share: of 20 chains, no array in the compiled step but the gathered examples has more than 5 rows.
from equilibria.learn.contrast import contrast
from equilibria.learn.devices import Devices, spread

def visible(key):
    found = contrast(machine, eq.rdm(3), spread({"visible": jax.numpy.zeros((20, 12))}), key=key)
    return found.report["contrast"]

with Devices(4).in_use():
    text = jax.jit(visible).lower(jax.random.key(0)).compile().as_text()
assert "f32[5,12]" in text and "f32[20,12]" not in text, "the chains are not shared out"
"""
)

TWO_PROCESSES = (
    """
import sys, jax
folder, port, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
"""
    + COMMON
    + """
assert (jax.device_count(), jax.local_device_count()) == (4, 2)
reference = np.load(folder + "/reference.npz")
for name in ("pcd", "particles"):
    run = train(name, 4, checkpoint=f"{folder}/{name}", resume=True)
    for index, leaf in enumerate(jax.tree.leaves((run.network, run.carry))):
        np.testing.assert_allclose(leaf, reference[f"{name}{index}"], rtol=0, atol=1e-6)
"""
)


def environment(devices):
    return os.environ | {
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


def start(script, devices, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment(devices), stderr=subprocess.PIPE, text=True)


def test_two_and_four_devices_are_one_and_checkpoints_change_hands(tmp_path):
    process = start(MANY_DEVICES, 4, tmp_path)
    errors = process.communicate(timeout=300)[1]
    assert process.returncode == 0, errors


def test_two_processes_are_one_and_take_up_its_checkpoints(tmp_path):
    """They go on from what this process, with one device, left; this one then reads what they wrote."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here: dict = {}
    exec(COMMON, here)
    reference = {}
    for name in ("pcd", "particles"):
        here["train"](name, None, epochs=2, checkpoint=tmp_path / name)
        run = here["train"](name, None)
        reference |= {f"{name}{i}": leaf for i, leaf in enumerate(jax.tree.leaves((run.network, run.carry)))}
    np.savez(tmp_path / "reference.npz", **reference)
    processes = [start(TWO_PROCESSES, 2, tmp_path, port, rank) for rank in range(2)]
    for process in processes:
        errors = process.communicate(timeout=300)[1]
        assert process.returncode == 0, errors
    resumed = here["train"]("pcd", None, epochs=5, checkpoint=tmp_path / "pcd", resume=True)
    np.testing.assert_allclose(resumed.network.couplings[0].weights, reference["pcd2"], rtol=0, atol=1e-6)


def test_bad_devices_are_refused():
    network, data = eq.rbm(5, 3, key=0), np.eye(5)
    there = jax.device_count()
    with pytest.raises(ValueError, match=rf"devices: got {there + 1}; allowed: at most {there}"):
        eq.train(network, data, eq.cd(1), epochs=1, devices=there + 1, key=0)
    with pytest.raises(ValueError, match="devices: got 0; allowed: a whole number >= 1"):
        eq.train(network, data, eq.cd(1), epochs=1, devices=0, key=0)
    two = [*jax.devices(), *jax.devices()][:2]
    with pytest.raises(ValueError, match="batch_size: got 5; allowed: a multiple of 2, the number of devices"):
        eq.train(network, data, eq.cd(1), epochs=1, devices=two, key=0)
    with pytest.raises(ValueError, match="chains: got 3; allowed: a multiple of 2"):
        eq.train(network, data, eq.pcd(1, chains=3), epochs=1, batch_size=4, devices=two, key=0)
