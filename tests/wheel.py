"""The installed package, tried from outside its tree: `python tests/wheel.py [PART]` in an environment that holds the wheel.

What is only in the source tree (tests, docs) must not be needed, and what the wheel should carry (stubs, pages, pictures,
data) must be there. PART is a folder of the package whose doctests are run, `app/lab` for one that needs an extra; without
it all are run that need none.
"""

import importlib.util
import subprocess
import sys
import tempfile
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
eq.estimators.RBM(2, random_state=0).fit(np.eye(4))
"""


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
        commands = [
            [sys.executable, "-c", SMOKE],
            [str(Path(sys.executable).with_name("equilibria")), "list"],
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules", str(Path(where, part)),
             "-o", "doctest_optionflags=NORMALIZE_WHITESPACE ELLIPSIS", "--import-mode=importlib",
             *([] if with_lab else [f"--ignore={where}/app/lab"])],
        ]  # fmt: skip
        for command in commands:
            code = subprocess.run(command, cwd=elsewhere).returncode
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
