"""The installed package, tried from outside its tree: `python tests/wheel.py [PART | --smoke]` where the wheel is installed.

What is only in the source tree (tests, docs) must not be needed, and what the wheel should carry (stubs, pages, pictures,
data) must be there. PART is a folder of the package whose doctests are run, `app/lab` for one that needs an extra; without
it all are run that need none, and with --smoke none are.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

SMOKE = """
import numpy as np
import equilibria as eq
patterns = eq.data.random_patterns(5, 100, key=0)
rest = eq.equilibrate(eq.hopfield(patterns), eq.Sweeps(5), patterns, temperature=0.1, key=1)
assert float((rest["neurons"] * patterns).mean()) > 0.9
run = eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(steps=1), epochs=2, key=1)
assert np.isfinite(run.history["contrast"]).all()
assert abs(float(eq.theory.hopfield_capacity()) - 0.13790557) < 1e-7
"""

ESTIMATORS = """
import numpy as np
from sklearn.datasets import load_iris
from equilibria import estimators
X, y = load_iris(return_X_y=True)
assert estimators.EquilibriumClassifier((16,), max_iter=40, random_state=0).fit(X, y).score(X, y) > 0.9
line = np.linspace(-1, 1, 60)[:, None]
square = line[:, 0] ** 2
assert estimators.EquilibriumRegressor((30,), max_iter=200, random_state=0).fit(line, square).score(line, square) > 0.8
letters = np.array([[1, 1, 1, -1, -1, -1, 1, 1], [1, -1, 1, -1, 1, -1, 1, -1]])
memory = estimators.HopfieldMemory(random_state=0).fit(letters)
assert (memory.predict([[1, 1, 1, -1, -1, -1, 1, 0]]) == letters[0]).all()
rng = np.random.default_rng(0)
rows = np.where(rng.random((400, 8)) < 0.1, -1, 1) * letters[rng.integers(2, size=400)]
machine = estimators.RBM(4, random_state=0).fit(rows)
assert machine.score(rows) > -8 * np.log(2) + 1  # better than eight coins
synapses = estimators.BinarySynapseRBM(2, learn_bias=True, random_state=0).fit(rows)
assert synapses.components_.shape == (2, 8)
np.savetxt("rows.csv", (rows + 1) // 2, fmt="%d", delimiter=",")
"""

COMMANDS = [  # in a folder that has rows.csv
    ["--version"],
    ["list"],
    ["train", "rbm", "--data", "rows.csv", "--out", "run", "--hidden", "2", "--epochs", "3", "--quiet"],
    ["evaluate", "run", "--data", "rows.csv"],
    ["sample", "run", "--count", "5"],
]


def main(part: str = "") -> int:
    """Import, smoke test, command line, doctests of the installed modules; the exit code of the first that fails."""
    with_lab = importlib.util.find_spec("starlette") is not None
    with tempfile.TemporaryDirectory() as elsewhere:
        where = subprocess.run(
            [sys.executable, "-c", "import equilibria; print(equilibria.__path__[0])"],
            cwd=elsewhere, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        if "site-packages" not in where:
            print(f"not the installed package: {where}")
            return 1
        versions = (f"{name} {metadata.version(name)}" for name in ("jax", "numpy", "scipy", "scikit-learn", "xarray"))
        print(f"Python {sys.version.split()[0]}, {', '.join(versions)}", flush=True)
        command = str(Path(sys.executable).with_name("equilibria"))
        steps = [[sys.executable, "-c", code] for code in (SMOKE, ESTIMATORS)]
        steps += [[command, *words] for words in COMMANDS]
        if part != "--smoke":
            steps += [
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules", str(Path(where, part)),
                 "-o", "doctest_optionflags=NORMALIZE_WHITESPACE ELLIPSIS", "--import-mode=importlib",
                 *([] if with_lab else [f"--ignore={where}/app/lab"])],
            ]  # fmt: skip
        # What one step compiles the others read; and the example of `eq.cache` then leaves the setting as it was.
        env = os.environ | {"JAX_COMPILATION_CACHE_DIR": f"{elsewhere}/.compiled"}
        for step in steps:
            code = subprocess.run(step, cwd=elsewhere, env=env).returncode
            if code:
                return code
    print("the installed package works")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
