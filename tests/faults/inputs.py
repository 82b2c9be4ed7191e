"""Wrong options of the command line: each is refused by one line that names the option, before anything is written."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np

import equilibria as eq
from equilibria.app import cli
from equilibria.app.options import Classifier, Deep, Memory, Rbm, Synapses
from faults.tally import Tally

HUGE, NAN, INF = str(2**63), "nan", "inf"
COUNT = ("0", "-1", "1.5", HUGE, "many", "")  # no number of steps, neurons or examples
SEED = ("-1", "1.5", HUGE, str(2**32), "")
RATE = ("-0.1", NAN, INF, "-inf", "much")
HEAT = ("-1", NAN, INF, "1e-30", "1e30")
PATH = ("no/such/thing", "")
LAYERS = ("0", "-1", "1.5", "8,many", "")
PLACE = ("file", "file/inside")
WEIGHTS = ("nobody", "examples", "")
TABLE = {
    "--data": PATH, "--array": ("rows",), "--columns": ("nobody",), "--drop": ("nobody",), "--id-column": ("nobody",),
    "--header": ("maybe",), "--missing": ("guess",), "--binarise": (NAN, "much"), "--divide-by": ("0", NAN, "much"),
    "--image-shape": ("3x", "7x9"), "--out": PLACE, "--seed": SEED,
}  # fmt: skip
RUN = TABLE | {
    "--epochs": COUNT, "--batch-size": COUNT, "--learning-rate": (*RATE, "0"), "--final-rate": (*RATE, "1.5"),
    "--validation": ("-0.1", "1.5", NAN), "--patience": COUNT, "--time-limit": (*RATE, "0"),
}  # fmt: skip
LIKELIHOOD = RUN | {"--recipe": ("best",), "--steps": COUNT, "--chains": COUNT, "--l1": RATE, "--l2": RATE}
WRONG = {
    "train rbm": LIKELIHOOD | {
        "--hidden": COUNT, "--visible-units": ("clipped",), "--hidden-units": ("",), "--alphabet": ("greek",),
        "--weights": WEIGHTS, "--low-rank": (*COUNT, "5"),
    },
    "train deep": LIKELIHOOD | {"--layers": LAYERS, "--visible-units": ("clipped",), "--weights": WEIGHTS},
    "train classifier": RUN | {
        "--target": ("nobody",), "--layers": LAYERS, "--nudge": ("0", NAN), "--sweeps": COUNT, "--nudged-sweeps": COUNT,
        "--weights": WEIGHTS, "--labels": ("nobody",),
    },
    "train memory": TABLE | {"--sleep": (NAN, "-1")},
    "train synapses": RUN | {"--hidden": COUNT, "--e-step": ("guess",), "--weights": WEIGHTS},
    "sample": {"--count": COUNT, "--sweeps": COUNT, "--temperature": HEAT, "--seed": SEED, "--out": ("file/draws.npy",)},
    "evaluate": {
        "--data": PATH, "--method": ("guess",), "--steps": COUNT, "--chains": COUNT, "--seed": SEED, "--array": ("rows",),
        "--labels": ("nobody",), "--weights": WEIGHTS,
    },
    "diagnose": {
        "--data": PATH, "--sweeps": (*COUNT, "5"), "--chains": COUNT, "--seed": SEED, "--array": ("rows",),
        "--temperature": HEAT,
    },
    "export": {"--to": ("word",), "--out": ("file/machine.npz",)},
    "recall": {
        "--patterns": PATH, "--cue": ("no.png", "file", "large/bomb.png"), "--sleep": (NAN, "-1"), "--temperature": HEAT,
        "--sweeps": COUNT, "--seed": SEED, "--out": ("file/recalled.png",),
    },
    "phase-diagram": {"--sleep": (NAN, "-1"), "--points": ("0", "1", "-1", "1.5", HUGE), "--out": PLACE},
    "reproduce": {"--preset": ("huge",), "--out": PLACE, "--cluster": ("nowhere",)},
    "report": {"--preset": ("huge",), "--out": PLACE, "--jobs": COUNT},
    "lab": {"--port": ("-1", "65536", "door"), "--host": ("", "1.2.3.4.5")},
}  # fmt: skip
KINDS = {"rbm": Rbm, "deep": Deep, "classifier": Classifier, "memory": Memory, "synapses": Synapses}


def inputs(commands=tuple(WRONG), most: int | None = None) -> Tally:
    """Wrong values of every option, one at a time: all of them, or so many."""
    attempts, outcomes, broken = 0, Counter(), []
    own_cache = mock.patch("equilibria.compiled.cache")  # not the user's
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place), own_cache:
        good = _good()
        for command in commands:
            for option, values in WRONG[command].items():
                for value in values[:most]:
                    attempts += 1
                    ended = _one(good, command, option, value)
                    outcomes.update([ended] if ended == "refused" else [])
                    broken += [] if ended == "refused" else [f"{command} {option} {value!r}: {ended}"]
    return Tally("wrong options of the command line", attempts, outcomes, broken)


def options() -> set[tuple[str, str]]:
    """All options of all commands, as the command line has them; those of folders and switches aside."""
    asked = {f"train {kind}": options for kind, options in KINDS.items()} | cli.COMMANDS
    del asked["train"]
    found = {
        (command, f"--{name.replace('_', '-')}")
        for command, function in asked.items()
        for name in inspect.signature(function).parameters
    }
    switches = {"--resume", "--force", "--quiet", "--allow-large", "--kept", "--tempered", "--browser"}
    places = {"--run", "--experiment", "--model", "--cluster"}
    return {(command, option) for command, option in found if option not in switches | places}


def _good() -> dict[str, list[str]]:
    """A folder with all that good commands need, and these commands."""
    np.savez("rows.npz", examples=np.repeat(np.eye(4), 5, axis=0))
    Path("named.csv").write_text("a,b,kind\n" + "0,1,x\n1,0,y\n" * 10)
    eq.save_network("run", eq.rbm(4, 2, key=0))
    Path("file").write_text("not a folder")
    os.mkdir("pictures")
    from PIL import Image

    for number in range(2):
        picture = (np.random.default_rng(number).random((5, 5)) > 0.5).astype(np.uint8) * 255
        Image.fromarray(picture).save(f"pictures/{number}.png")
    os.mkdir("large")
    Image.new("1", (20_000, 20_000)).save("large/bomb.png")  # 50 kB on the disk
    table = ["--data", "rows.npz", "--out", "new"]
    return {
        **{f"train {kind}": ["train", kind, *table] for kind in KINDS},
        "train classifier": ["train", "classifier", "--target", "kind", "--data", "named.csv", "--out", "new"],
        "diagnose": ["diagnose", "run", "--data", "rows.npz"],
        "report": ["report"],
        "lab": ["lab", "--no-browser"],
        "sample": ["sample", "run"],
        "export": ["export", "run"],
        "evaluate": ["evaluate", "run", "--data", "rows.npz", "--method", "ais"],
        "recall": ["recall", "--patterns", "pictures", "--cue", "pictures/0.png"],
        "phase-diagram": ["phase-diagram", "hopfield", "--points", "2"],
        "reproduce": ["reproduce", "agliari2024/curie_weiss"],
    }


def _one(good: dict[str, list[str]], command: str, option: str, value: str) -> str:
    before = {str(path) for path in Path().rglob("*")}
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = cli.main([*_without(good[command], option), f"{option}={value}"])
    except SystemExit as exit:  # the parser's own: it writes a box
        return "refused" if exit.code == 2 and option in said.getvalue() else f"exit {exit.code}: {said.getvalue()}"
    except Exception as error:
        return repr(error)
    made = {str(path) for path in Path().rglob("*")} - before
    if code != 2:
        return f"exit code {code}"
    if made:
        return f"left {sorted(made)}"
    lines = said.getvalue().splitlines()
    if len(lines) != 1 or not lines[0].startswith("equilibria: error: "):
        return f"{len(lines)} lines: {lines}"
    named = option in lines[0] or (value and (value in lines[0] or str(Path(value).parent) in lines[0]))
    return "refused" if named else f"does not name {option}: {lines[0]}"


def _without(arguments: list[str], option: str) -> list[str]:
    if option not in arguments:
        return arguments
    place = arguments.index(option)
    return [*arguments[:place], *arguments[place + 2 :]]
