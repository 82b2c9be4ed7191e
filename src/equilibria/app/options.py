"""What `equilibria train` can be told, kind by kind. Nothing heavy is imported here: `--help` shows it at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from equilibria.learn.names import LikelihoodRecipe

HiddenUnits = Literal["binary", "spin", "gaussian", "relu", "double_relu"]
Flag = tyro.conf.FlagCreatePairsOff


def _number(kind: type, allowed: str, *words: str) -> tyro.constructors.PrimitiveConstructorSpec:
    """How a number that may be left out is read, or a word for that; what is neither is told in one sentence."""

    def read(given: list[str]) -> object:
        if given[0].lower() in words:
            return None
        try:
            return kind(given[0])
        except ValueError:
            raise ValueError(f"got {given[0]!r}; allowed: {allowed}") from None

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="|".join([kind.__name__.upper(), *words]),
        instance_from_str=read,
        is_instance=lambda value: value is None or isinstance(value, kind),
        str_from_instance=lambda value: [str(value)],
    )


_Omitted = tyro.conf.arg(help_behavior_hint="")
Whole = Annotated[int | None, _number(int, "a whole number >= 1"), _Omitted]
Number = Annotated[float | None, _number(float, "a number"), _Omitted]
Rate = Annotated[float | None, _number(float, "a number > 0, or auto", "auto"), _Omitted]


def listed(given: str | None) -> list[str] | None:
    """What was given with commas between.

    >>> listed("a, b"), listed(None)
    (['a', 'b'], None)
    """
    return None if given is None else [part.strip() for part in given.split(",") if part.strip()]


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The table, and how it is read.

    Attributes:
        data: .csv, .tsv, .txt, .npy, .npz, .h5, .h5ad or .parquet file of shape (examples, features); for rbm also .fasta.
        array: name of the array, for files with several.
        columns: the features, by name with commas between; ranges are first:last. All by default.
        drop: columns to leave out, likewise.
        id_column: the column that tells the rows apart and is no feature; auto looks for one, none says that there is none.
        header: whether the first line of a text holds names.
        missing: cells without a number: refuse them, or sum them out.
        binarise: values above this number are 1 and others 0.
        divide_by: divide all values by this number, 255 for 8-bit pixels.
        image_shape: HEIGHTxWIDTH where each example is a picture; found where it can be.
        allow_large: read packed files that take more than 2 GiB of memory.
    """

    data: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    array: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    columns: Annotated[str | None, tyro.conf.arg(metavar="NAMES", help_behavior_hint="")] = None
    drop: Annotated[str | None, tyro.conf.arg(metavar="NAMES", help_behavior_hint="")] = None
    id_column: Annotated[str, tyro.conf.arg(metavar="auto|none|NAME")] = "auto"
    header: Literal["auto", "yes", "no"] = "auto"
    missing: Literal["refuse", "sum-out"] = "refuse"
    binarise: Annotated[Number, tyro.conf.arg(metavar="NUMBER", help_behavior_hint="")] = None
    divide_by: Annotated[Number, tyro.conf.arg(metavar="NUMBER", help_behavior_hint="")] = None
    image_shape: Annotated[str | None, tyro.conf.arg(metavar="HxW", help_behavior_hint="")] = None
    allow_large: Annotated[bool, Flag] = False


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(TableOptions):
    """What every run has.

    Attributes:
        out: folder for checkpoints, history.nc, and pictures and tables of what was learned.
        epochs: passes through the data; by default as many as make about 2,000 updates, from 5 to 300.
        batch_size: examples in an update.
        final_rate: what the learning rate falls to over the epochs, as a fraction; 1 keeps it. A run that is resumed with
            more epochs goes on with the rate it had reached.
        validation: share of the examples that is held out to see how well the machine does on what it has not seen; none
            where that would be fewer than ten.
        patience: stop after so many epochs in which the examples held out have not become more probable, and keep the best
            machine. By default never.
        seed: of every random number.
        resume: go on with the run in the folder, if there is one.
        time_limit: stop after so many seconds of training, within about a second. By default never.
        quiet: print errors and the last line only.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    epochs: Whole = None
    batch_size: int = 100
    final_rate: float = 0.1
    validation: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.1
    patience: Annotated[Whole, tyro.conf.arg(metavar="EPOCHS", help_behavior_hint="")] = None
    seed: int = 0
    resume: Annotated[bool, Flag] = False
    time_limit: Annotated[Number, tyro.conf.arg(metavar="SECONDS", help_behavior_hint="")] = None
    quiet: Annotated[bool, Flag] = False


@dataclass(frozen=True, kw_only=True)
class WeighedOptions(TrainingOptions):
    """What the kinds have whose examples may count differently.

    Attributes:
        weights: how much each example counts: a file of one number for each, an array in the table's own file, or a column of
            the table, which is then no feature. By default all count the same.
    """

    weights: Annotated[str | None, tyro.conf.arg(metavar="FILE|NAME", help_behavior_hint="")] = None


@dataclass(frozen=True, kw_only=True)
class Rbm(WeighedOptions):
    """A restricted Boltzmann machine: features and their distribution, without labels.

    Several numbers of hidden neurons, as in --hidden 50,100,200, are tried one after the other and compared by the likelihood
    of the examples held out.

    When the time limit is reached, or the system sends SIGTERM or SIGUSR1, as batch queues do, the run writes its checkpoint
    and the exit code is 75: the same command with --resume goes on, bit for bit as if it had not been stopped.

    Attributes:
        hidden: number of hidden neurons, or several with commas between.
        recipe: how the free phase is reached.
        steps: sweeps (or rounds) of the free phase in each update.
        chains: persistent chains; as many as examples in a batch by default.
        learning_rate: at the start; by default, or with auto, what the data's largest variance allows.
        low_rank: begin with a machine that has learned so many principal components, 1 to 4, without chains. With --recipe
            tempered the chains then exchange along the run, down to that machine, and so do those of sample and diagnose
            with --tempered.
        l1: penalty on the size of the couplings.
        l2: penalty on their squares.
        visible_units: kind of the features; auto is binary for values in [0, 1], spin for -1 and +1, and gaussian, brought to
            mean 0 and variance 1, for other numbers with a fraction; potts takes whole numbers from 0 as states of sites, and
            is what sequences in a .fasta file are.
        hidden_units: kind of the hidden neurons.
        alphabet: of sequences in a .fasta file.
    """

    hidden: Annotated[str, tyro.conf.arg(metavar="NUMBER[,NUMBER...]")] = "64"
    recipe: LikelihoodRecipe = "pcd"
    steps: int = 1
    chains: Whole = None
    learning_rate: Rate = None
    low_rank: Annotated[Whole, tyro.conf.arg(metavar="COMPONENTS", help_behavior_hint="")] = None
    l1: float = 0.0
    l2: float = 0.0
    visible_units: Literal["auto", "binary", "spin", "gaussian", "potts"] = "auto"
    hidden_units: HiddenUnits = "binary"
    alphabet: Literal["protein", "dna", "rna"] = "protein"


@dataclass(frozen=True, kw_only=True)
class Deep(WeighedOptions):
    """A Boltzmann machine with several hidden layers.

    Attributes:
        layers: numbers of hidden neurons, from the features up.
        recipe: how both phases are reached.
        steps: sweeps of each phase in each update.
        chains: persistent chains; as many as examples in a batch by default.
        learning_rate: at the start.
        l1: penalty on the size of the couplings.
        l2: penalty on their squares.
        visible_units: kind of the features, as for rbm.
    """

    layers: Annotated[str, tyro.conf.arg(metavar="NUMBER[,NUMBER...]")] = "100,50"
    recipe: Literal["pcd", "cd", "rdm", "mean_field"] = "pcd"
    steps: int = 5
    chains: Whole = None
    learning_rate: float = 0.02
    l1: float = 0.0
    l2: float = 0.0
    visible_units: Literal["auto", "binary", "spin", "gaussian"] = "auto"


@dataclass(frozen=True, kw_only=True)
class Classifier(WeighedOptions):
    """A classifier that predicts a column by coming to rest, and learns by equilibrium propagation.

    Attributes:
        target: the column to predict, of words or numbers.
        labels: what to predict where it is no column: a file of one word or number for each example, or an array in the
            table's own file, such as obs/cell_type of a .h5ad file.
        layers: numbers of hidden neurons, from the features up.
        nudge: strength of the nudge.
        sweeps: of the free phase at most.
        nudged_sweeps: of the nudged phases.
        learning_rate: of the first coupling, at the start; later ones learn more slowly.
        epochs: passes through the data.
    """

    target: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    labels: Annotated[str | None, tyro.conf.arg(metavar="FILE|NAME", help_behavior_hint="")] = None
    layers: Annotated[str, tyro.conf.arg(metavar="NUMBER[,NUMBER...]")] = "100"
    nudge: float = 0.25
    sweeps: int = 20
    nudged_sweeps: int = 5
    learning_rate: float = 0.4
    final_rate: float = 0.03
    epochs: int = 40
    batch_size: int = 32


@dataclass(frozen=True, kw_only=True)
class Memory(TableOptions):
    """A Hopfield network whose memories are the rows of a table; evaluate lets it fall from other rows.

    Attributes:
        out: folder for the network.
        sleep: sleeping time: 0 is Hebb's rule; rows that resemble each other need more.
        seed: of the order in which neurons are visited.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    sleep: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Synapses(WeighedOptions):
    """A machine whose weights are -1 or +1, learned as a distribution over them.

    Attributes:
        hidden: number of hidden neurons.
        e_step: how the equivalent machine is averaged over; auto decides by the number of hidden neurons.
        learning_rate: of the gradient of the whole bound, with momentum 0.9; it does not fall.
        batch_size: examples in an update; all, where there are no more.
        epochs: passes through the data.
    """

    hidden: int = 4
    e_step: Literal["auto", "exact", "cavity", "response", "gibbs"] = "auto"
    learning_rate: float = 0.03
    epochs: int = 200
    batch_size: int = 1_000_000
