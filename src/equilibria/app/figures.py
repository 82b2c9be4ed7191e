"""What `equilibria reproduce` and `equilibria report` do."""

from __future__ import annotations

import sys
from pathlib import Path

from equilibria.app import report as page
from equilibria.grids.engines import on_cluster
from equilibria.papers import INDEX, frame
from equilibria.papers.claims import Claim


def reproduce(id: str, preset: str, out: Path | None, force: bool, cluster: str | None) -> int:
    """Make one figure and print its claims; 1 if one does not hold, 2 if the result could not be kept."""
    with on_cluster(cluster):
        result = frame.reproduce(id, preset, out, force=force)
    _print_claims(id, result)
    return 2 if not result.stored else 0 if result.held else 1


def report(out: Path, preset: str) -> int:
    """Make every figure that is not there yet, and one page about all of them."""
    page.check_place(out)
    claims: list[Claim] = []
    lacking: dict[str, FileNotFoundError] = {}
    for id in sorted(INDEX):
        try:
            result = frame.reproduce(id, preset, frame.folder_of(id, preset, out))
        except FileNotFoundError as missing:  # a data set that is neither here nor to be downloaded
            lacking[id] = missing
            continue
        _print_claims(id, result)
        claims += result.claims
    if lacking:
        left_out = f"Left out for want of data: {', '.join(lacking)}."
        print(left_out, *set(map(str, lacking.values())), sep="\n", file=sys.stderr)
    print(f"{sum(claim.held for claim in claims)} of {len(claims)} claims hold. Open {page.write(out)}")
    return 0


def _print_claims(id: str, result: frame.Reproduction) -> None:
    seconds = result.dataset.attrs["seconds"]
    how = f"kept from {result.dataset.attrs['created']}; --force runs it again" if result.cached else f"{seconds:.1f} s"
    print(f"{id} ({how})")
    for claim in result.claims:
        verdict = "held    " if claim.held else "NOT HELD"
        print(f"  {verdict}  {claim.says}: {claim.expectation}, measured {claim.measured:.4g}  [{claim.source}]")
    print(f"  in {result.folder}" if result.stored else "  not kept", flush=True)
