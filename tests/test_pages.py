"""What the site's pages say to do works: scripts for batch queues, weights of other packages, completion, records, links."""

import importlib.util
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import equilibria as eq

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)


# ---- batch queues ----

SCRIPTS = [script for script in blocks("howto/cluster.md", "bash") if script.startswith("#!")]


def submitted(script: str, folder: Path, code: int, signal: str = "") -> tuple[int, list[str]]:
    """The exit code of a batch script, and what it asked of a queue that only pretends; srun ends with a given code."""
    (folder / "venv/bin").mkdir(parents=True)
    (folder / "venv/bin/activate").write_text("")
    log = folder / "log"
    work = f"kill -{signal} $PPID; sleep 2" if signal else f"exit {code}"
    for name, does in {"srun": work, "scontrol": ""}.items():
        (folder / name).write_text(f'#!/bin/bash\necho {name} "$@" >> {log}\n{does}\n')
        (folder / name).chmod(0o755)
    (folder / "job.sh").write_text(script)
    names = {"SLURM_JOB_ID": "17", "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "7", "HOME": str(folder)}
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(["bash", folder / "job.sh"], env=os.environ | names | {"PATH": path}, timeout=60)
    return ended.returncode, log.read_text().splitlines()


def test_there_is_a_script_for_a_run_for_many_and_for_a_grid():
    assert len(SCRIPTS) == 3
    assert all("#SBATCH --time" in script and "--signal" in script and "--requeue" in script for script in SCRIPTS)


@pytest.mark.parametrize(("script", "job"), list(zip(SCRIPTS[:2], ["17", "17_7"], strict=True)))
def test_a_training_that_stopped_in_time_is_queued_again_and_no_other(script, job, tmp_path):
    code, asked = submitted(script, tmp_path / "stopped", 75)
    assert code == 0
    assert asked[1:] == [f"scontrol requeue {job}"]
    assert submitted(script, tmp_path / "done", 0)[1] == asked[:1]
    assert submitted(script, tmp_path / "failed", 2) == (2, asked[:1])


def test_a_task_of_an_array_has_a_folder_size_and_seed_of_its_own(tmp_path):
    (asked,) = submitted(SCRIPTS[1], tmp_path, 0)[1]
    assert "--out runs/100-2 --hidden 100 --seed 2 --resume" in asked  # task 7 of 3 sizes and 5 seeds


def test_a_grid_that_is_told_to_stop_is_queued_again(tmp_path):
    assert submitted(SCRIPTS[2], tmp_path / "told", 0, "USR1") == (0, ["srun python scan.py", "scontrol requeue 17_7"])
    assert submitted(SCRIPTS[2], tmp_path / "done", 0)[1] == ["srun python scan.py"]
    assert submitted(SCRIPTS[2], tmp_path / "failed", 3)[0] == 3


@pytest.mark.parametrize("script", SCRIPTS[:2])
def test_the_commands_options_are_those_of_the_command(script, tmp_path, monkeypatch):
    """The very words of the script train a machine."""
    from equilibria.app.cli import main

    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).integers(0, 2, (40, 6)).astype(np.uint8))
    words = re.search(r"srun equilibria (.*)", script)[1].replace('"', "").split()
    small = {"500": "2", "200": "1", "$size": "2", "$seed": "3", "runs/$size-$seed": "runs/b"}
    assert main([small.get(word, word) for word in words] + ["--epochs", "1"] * ("--epochs" not in words)) == 0


# ---- other packages ----


def random_machine() -> eq.Network:
    rng = np.random.default_rng(3)
    return eq.rbm(weights=rng.normal(size=(5, 3)), visible_bias=rng.normal(size=5), hidden_bias=rng.normal(size=3))


def parts(machine: eq.Network) -> list[np.ndarray]:
    return [np.asarray(machine.couplings[0].weights), *(np.asarray(layer.bias) for layer in machine.layers)]


def same(first: eq.Network, second: eq.Network) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(parts(first), parts(second), strict=True))


def test_weights_to_scikit_learn_and_back():
    """Its hidden means and free energy are ours, and its machine becomes the one it came from."""
    from sklearn.neural_network import BernoulliRBM

    ours = random_machine()
    theirs = BernoulliRBM(n_components=3)
    weights, theirs.intercept_visible_, theirs.intercept_hidden_ = parts(ours)
    theirs.components_ = weights.T
    rows = np.random.default_rng(0).integers(0, 2, (8, 5)).astype(np.float64)
    field = rows @ weights + theirs.intercept_hidden_
    np.testing.assert_allclose(theirs.transform(rows), ours.layer("hidden").unit.mean(field), rtol=1e-5)
    logs = np.array([np.ravel(eq.log_likelihood(ours, row[None], "exact").value)[0] for row in rows])
    np.testing.assert_allclose(np.ptp(logs + theirs._free_energy(rows)), 0, atol=1e-4)  # they differ by ln Z alone
    back = eq.rbm(
        weights=theirs.components_.T, visible_bias=theirs.intercept_visible_, hidden_bias=theirs.intercept_hidden_
    )
    assert same(back, ours)


class Tensor:
    """As much of a tensor as the page uses."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self

    def numpy(self):
        return self.values


def pretended_torch() -> SimpleNamespace:
    def from_numpy(values):
        assert isinstance(values, np.ndarray)
        assert values.flags.writeable  # torch warns of any other
        return Tensor(values)

    return SimpleNamespace(from_numpy=from_numpy)


def torch_or_not():
    return pytest.importorskip("torch") if importlib.util.find_spec("torch") else pretended_torch()


def test_weights_to_rbms_and_back():
    """The page's own lines, with the package where it is installed and else with its three names."""
    torch, ours = torch_or_not(), random_machine()
    if importlib.util.find_spec("rbms"):
        from rbms.bernoulli_bernoulli.classes import BBRBM
    else:

        def BBRBM(weight_matrix, vbias, hbias):
            return SimpleNamespace(weight_matrix=weight_matrix, vbias=vbias, hbias=hbias)

    take, give = blocks("howto/other_libraries.md", "python")[0].split("\n\n")[1].partition("model = ")[::2]
    names = {"eq": eq, "np": np, "torch": torch, "BBRBM": BBRBM, "ours": ours}
    exec(f"model = {give}", names)
    exec(take, names)
    assert same(names["ours"], ours)


def test_weights_to_torch_and_back():
    torch, ours = torch_or_not(), random_machine()
    W, b, c = (torch.from_numpy(np.array(part)) for part in parts(ours))
    names = {"eq": eq, "np": np, "torch": torch, "W": W, "b": b, "c": c}
    exec(blocks("howto/other_libraries.md", "python")[1], names)
    assert same(names["ours"], ours)
    assert np.array_equal(names["W"].numpy(), W.numpy())


# ---- habits ----


def test_a_run_speaks_by_logging_and_prints_nothing(caplog, capsys, tmp_path):
    with caplog.at_level(logging.DEBUG, "equilibria"):
        eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(1), steps=2, checkpoint=tmp_path / "run", key=1)
    told = [record.getMessage() for record in caplog.records if record.name.startswith("equilibria")]
    assert any("contrast" in line for line in told)
    assert any("checkpoint of step 2" in line for line in told)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("place", [0, 1])
def test_the_recipes_for_tensorboard_and_wandb_pass_every_number_on(place, monkeypatch):
    seen: list[tuple[str, float, int]] = []
    writer = SimpleNamespace(add_scalar=lambda name, value, step: seen.append((name, value, step)))
    wandb = SimpleNamespace(
        init=lambda project: None, log=lambda row, step: seen.extend((name, value, step) for name, value in row.items())
    )
    pretended = {"torch.utils.tensorboard": SimpleNamespace(SummaryWriter=lambda folder: writer), "wandb": wandb}
    names = {"np": np}
    with monkeypatch.context() as meanwhile:  # other packages ask whether torch is there
        for name, module in {"torch": SimpleNamespace(), "torch.utils": SimpleNamespace(), **pretended}.items():
            meanwhile.setitem(sys.modules, name, module)
        exec(blocks("howto/watching.md", "python")[place], names)
    callback = names.get("to_tensorboard") or names["to_wandb"]
    run = eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(1), steps=2, callbacks=[callback], key=1)
    recorded = [(float(value), step) for name, value, step in seen if name == "contrast"]
    assert recorded == list(
        zip(run.history["contrast"].values.tolist(), run.history["step"].values.tolist(), strict=True)
    )


def completed(line: str) -> set[str]:
    """What bash offers after these words."""
    script = subprocess.run(
        [sys.executable, "-m", "equilibria.app.cli", "--tyro-print-completion", "bash"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    words = line.split(" ")
    ask = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
    function = re.search(r"complete .*-F (\S+) equilibria", script)[1]
    told = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}{function}; printf '%s\\n' \"${{COMPREPLY[@]}}\""],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(told.stdout.split())


def test_the_shell_completes_commands_and_options():
    assert completed("equilibria rep") == {"reproduce", "report"}
    assert "--sweeps" in completed("equilibria diagnose --sw")


# ---- links ----


def extension(name: str):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"_ext/{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_links_that_lead_nowhere_are_found(tmp_path):
    links = extension("links")
    outside = '<a href="https://elsewhere.org/">y</a><a href="https://doi.org/11.1/2">z</a>'
    (tmp_path / "a.html").write_text(f'<a href="b.html#here">x</a>{outside}<p id="top">')
    (tmp_path / "b.html").write_text(
        '<p id="here"><a href="a.html#top">x</a><img src="c.png"><a href="a.html#no">z</a>'
    )
    lost = ["b.html: a.html#no leads nowhere", "b.html: c.png leads nowhere"]
    assert links.broken(tmp_path) == ["a.html: https://doi.org/11.1/2 is no address", *lost]


@pytest.mark.parametrize(
    ("address", "right"),
    [
        ("https://doi.org/10.1016/0003-4916(87)90092-3", True),
        ("https://arxiv.org/abs/1602.05179", True),
        ("http://127.0.0.1:8017/#phases", True),
        ("http://elsewhere.org", False),
        ("https://elsewhere", False),
        ("https://doi.org/1016/0003", False),
        ("https://arxiv.org/abs/1613.05179", False),
    ],
)
def test_the_form_of_addresses(address, right):
    assert extension("links").well_formed(address) is right


def test_numbers_of_papers_are_well_formed():
    """DOIs and numbers of arXiv, wherever we cite: no network is asked."""
    well_formed = extension("links").well_formed
    sources = [*DOCS.glob("*.md"), *DOCS.glob("*/*.md"), *ROOT.glob("paper/*"), *ROOT.glob("*.md")]
    text = "\n".join(path.read_text() for path in sources if path.is_file()) + eq.cite()
    numbers = {f"https://doi.org/{number}" for number in re.findall(r"doi ?= ?\{([^}]*)\}", text)}
    numbers |= {f"https://arxiv.org/abs/{number}" for number in re.findall(r"arXiv:([\w.]*\w)", text)}
    numbers |= {f"https://arxiv.org/abs/{number}" for number in re.findall(r"eprint ?= ?\{([^}]*)\}", text)}
    assert len(numbers) > 5
    assert [number for number in numbers if not well_formed(number)] == []


def test_bring_your_own_energy():
    """The page for energy-based learning says that the gradient converged."""
    page = (DOCS / "audiences/energy_based.md").read_text()
    example = re.search(r"## Any energy you can write\n\n```\{code-cell\} ipython3\n(.*?)```", page, flags=re.DOTALL)[1]
    names: dict = {"eq": eq, "jnp": __import__("jax").numpy}
    exec(example, names)
    assert bool(names["found"].converged)
