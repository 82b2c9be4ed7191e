"""Where the systems and equations come from, as BibTeX."""

from __future__ import annotations

from equilibria import check

_SOURCES: dict[str, tuple[tuple[str, ...], str]] = {
    "huang2019": (
        ("synapses",),
        """@article{huang2019,
  author = {Huang, Haiping},
  title = {How data, synapses and neurons interact with each other: a variational principle marrying gradient ascent and
           message passing},
  journal = {arXiv:1911.07662},
  year = {2019}
}""",
    ),
    "decelle2017": (
        ("rbm", "spectral"),
        """@article{decelle2017,
  author = {Decelle, Aur{\\'e}lien and Fissore, Giancarlo and Furtlehner, Cyril},
  title = {Spectral dynamics of learning in restricted {Boltzmann} machines},
  journal = {EPL},
  volume = {119},
  pages = {60001},
  year = {2017},
  doi = {10.1209/0295-5075/119/60001}
}""",
    ),
    "agliari2024": (
        ("hopfield", "dreaming", "examples"),
        """@misc{agliari2024,
  author = {Agliari, Elena},
  title = {Machine learning: from mammal's brain to statistical mechanics},
  howpublished = {Lecture at the Spring School "Bruno Touschek", Frascati},
  year = {2024}
}""",
    ),
    "scellier2017": (
        ("equilibrium_propagation",),
        """@article{scellier2017,
  author = {Scellier, Benjamin and Bengio, Yoshua},
  title = {Towards a biologically plausible backprop},
  journal = {arXiv:1602.05179},
  year = {2016}
}""",
    ),
    "hopfield1982": (
        ("hopfield",),
        """@article{hopfield1982,
  author = {Hopfield, John J.},
  title = {Neural networks and physical systems with emergent collective computational abilities},
  journal = {Proceedings of the National Academy of Sciences},
  volume = {79},
  pages = {2554--2558},
  year = {1982},
  doi = {10.1073/pnas.79.8.2554}
}""",
    ),
    "amit1987": (
        ("hopfield",),
        """@article{amit1987,
  author = {Amit, Daniel J. and Gutfreund, Hanoch and Sompolinsky, Haim},
  title = {Statistical mechanics of neural networks near saturation},
  journal = {Annals of Physics},
  volume = {173},
  pages = {30--67},
  year = {1987},
  doi = {10.1016/0003-4916(87)90092-3}
}""",
    ),
    "fachechi2019": (
        ("dreaming",),
        """@article{fachechi2019,
  author = {Fachechi, Alberto and Agliari, Elena and Barra, Adriano},
  title = {Dreaming neural networks: forgetting spurious memories and reinforcing pure ones},
  journal = {Neural Networks},
  volume = {112},
  pages = {24--40},
  year = {2019},
  doi = {10.1016/j.neunet.2019.01.006}
}""",
    ),
    "agliari2022": (
        ("examples",),
        """@article{agliari2022,
  author = {Agliari, Elena and Alemanno, Francesco and Barra, Adriano and De Marzo, Giordano},
  title = {The emergence of a concept in shallow neural networks},
  journal = {Neural Networks},
  volume = {148},
  pages = {232--253},
  year = {2022},
  doi = {10.1016/j.neunet.2022.01.017}
}""",
    ),
    "alemanno2023": (
        ("examples",),
        """@article{alemanno2023,
  author = {Alemanno, Francesco and Aquaro, Miriam and Kanter, Ido and Barra, Adriano and Agliari, Elena},
  title = {Supervised {Hebbian} learning},
  journal = {EPL},
  volume = {141},
  pages = {11001},
  year = {2023},
  doi = {10.1209/0295-5075/aca55f}
}""",
    ),
    "laborieux2021": (
        ("equilibrium_propagation",),
        """@article{laborieux2021,
  author = {Laborieux, Axel and Ernoult, Maxence and Scellier, Benjamin and Bengio, Yoshua and Grollier, Julie and
            Querlioz, Damien},
  title = {Scaling equilibrium propagation to deep {ConvNets} by drastically reducing its gradient estimator bias},
  journal = {Frontiers in Neuroscience},
  volume = {15},
  pages = {633674},
  year = {2021},
  doi = {10.3389/fnins.2021.633674}
}""",
    ),
    "hinton2002": (
        ("rbm",),
        """@article{hinton2002,
  author = {Hinton, Geoffrey E.},
  title = {Training products of experts by minimizing contrastive divergence},
  journal = {Neural Computation},
  volume = {14},
  pages = {1771--1800},
  year = {2002},
  doi = {10.1162/089976602760128018}
}""",
    ),
    "tieleman2008": (
        ("rbm",),
        """@inproceedings{tieleman2008,
  author = {Tieleman, Tijmen},
  title = {Training restricted {Boltzmann} machines using approximations to the likelihood gradient},
  booktitle = {Proceedings of the 25th International Conference on Machine Learning},
  pages = {1064--1071},
  year = {2008}
}""",
    ),
}


def cite(*topics: str) -> str:
    """The BibTeX of the sources behind some topics, or of all of them; print it.

    Args:
        *topics: "hopfield", "dreaming", "examples", "rbm", "spectral", "equilibrium_propagation" or "synapses", or the name
            of a source such as "decelle2017".

    Returns:
        The entries, one after the other.

    Raises:
        ValueError: if a topic is not known.

    >>> print(cite("dreaming").splitlines()[0])
    @misc{agliari2024,
    """
    known = sorted({topic for names, _ in _SOURCES.values() for topic in names} | set(_SOURCES))
    for topic in topics:
        check.choice("topic", topic, known)
    wanted = [entry for name, (names, entry) in _SOURCES.items() if not topics or {name, *names} & set(topics)]
    return "\n\n".join(wanted)
