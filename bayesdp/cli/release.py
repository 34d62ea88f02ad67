"""``bayesdp release``: a confidential table in, a release out."""

from __future__ import annotations

import argparse
from typing import Any

from bayesdp.cli.arguments import add_command, add_output, add_table_options, table_options
from bayesdp.cli.queries import FORMS

__all__ = ["add", "run"]

_TEXT = """\
For whoever has the confidential table. The invariants are published exactly, the cells with noise that
changes none of them. Without --seed the noise comes from the operating system's entropy and is gone
afterwards; with --seed the release is marked as simulated, because whoever knows the seed can subtract the
noise.

Labels are published with the release: they must come from a public list."""

_MECHANISMS = {
    "lattice-laplace": ("LatticeLaplace", {"epsilon", "norm"}, {"epsilon"}),
    "lattice-gaussian": ("LatticeGaussian", {"rho", "epsilon", "delta"}, set[str]()),
    "projected-gaussian": ("ProjectedGaussian", {"rho", "epsilon", "delta"}, set[str]()),
}
"""Name -> class, parameters that it takes, parameters that it must have."""


def add(commands: Any) -> None:
    """Add the subcommand."""
    own = add_command(
        commands,
        "release",
        run,
        title="release a confidential table with noise that keeps its invariants",
        text=_TEXT,
        example="bayesdp release table.csv --invariant margins:county --invariant margins:education "
        "--mechanism lattice-laplace\n      --epsilon 0.25 --norm l1 -o release.nc",
    )
    own.add_argument("table", metavar="TABLE", help="the confidential table, .csv or .nc")
    own.add_argument(
        "--invariant",
        action="append",
        required=True,
        metavar="QUERY",
        help=f"what is published exactly: {FORMS.removesuffix(', cells')}; may be repeated",
    )
    own.add_argument("--mechanism", required=True, choices=sorted(_MECHANISMS), help="how the noise is drawn")
    own.add_argument("--epsilon", type=float, help="privacy loss; with --delta for the Gaussian mechanisms")
    own.add_argument("--delta", type=float, help="probability of a larger loss, with --epsilon")
    own.add_argument("--rho", type=float, help="zero-concentrated privacy loss of the Gaussian mechanisms")
    own.add_argument("--norm", choices=("l1", "l2"), help="norm of the lattice Laplace noise (default: l1)")
    own.add_argument("--seed", type=int, help="seed of a simulated release, which protects nobody")
    add_table_options(own)
    add_output(own, "the release: release.nc, or a folder of CSV files (a name without a suffix)")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    import numpy as np

    from bayesdp import mechanisms
    from bayesdp.cli.files import check_release_path, write_release
    from bayesdp.cli.queries import parse_query
    from bayesdp.frames import Frame
    from bayesdp.invariants import Invariants
    from bayesdp.tables import read_table

    check_release_path(args.output, force=args.force)
    table = read_table(args.table, **table_options(args))
    frame = Frame.of(table)
    invariants = Invariants([parse_query(text, frame) for text in args.invariant]).query
    name, known, needed = _MECHANISMS[args.mechanism]
    given = {key: getattr(args, key) for key in ("epsilon", "delta", "rho", "norm") if getattr(args, key) is not None}
    for key in given:
        if key not in known:
            raise ValueError(f"--{key} is no parameter of {args.mechanism}; it takes --{', --'.join(sorted(known))}")
    for key in sorted(needed - set(given)):
        raise ValueError(f"{args.mechanism} needs --{key}")
    mechanism = getattr(mechanisms, name)(invariants, **given)
    rng = None if args.seed is None else np.random.default_rng(args.seed)
    release = mechanism.release(table, rng=rng)
    write_release(release, args.output, force=args.force)
    print(f"{release!r}\n\n{release.guarantee}\n\nwritten to {args.output}")
    return 0
