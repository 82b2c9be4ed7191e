"""`make bench`: run every benchmark, or those named on the command line, and print their tables.

Words after a name that are no benchmarks are parts of it: `python -m benchmarks panel likelihoods`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main() -> None:
    """Each module of this folder without a leading underscore has a `main()` that prints its table."""
    known = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name[0] != "_")
    asked: dict[str, list[str]] = {} if sys.argv[1:] else {name: [] for name in known}
    for word in sys.argv[1:]:
        if word in known:
            asked[word] = []
        elif asked:
            asked[list(asked)[-1]].append(word)
        else:
            sys.exit(f"{word} is no benchmark; there are {', '.join(known)}")
    for name, parts in asked.items():
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main(*parts)


if __name__ == "__main__":
    main()
