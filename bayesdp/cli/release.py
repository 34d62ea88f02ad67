"""``bayesdp release``: a confidential table in, a release out."""

from __future__ import annotations

import argparse
from typing import Any

from bayesdp.cli.arguments import add_command, add_output, add_repeatable, add_table_options, table_options
from bayesdp.cli.queries import FORMS

_TEXT = """\
For whoever has the confidential table. The invariants are published exactly, the cells with noise that
changes none of them. Without --seed integer noise is made of the operating system's entropy wherever an
exact sampler is known; real noise comes from NumPy's PCG64 generator, which the operating system seeds, and
which is no cryptographic one. The guarantee says which it was. Nothing of it is kept. With --seed the release
is marked as simulated, because whoever knows the seed can subtract the noise.

Labels are published with the release: they must come from a public list. What is wrong with the table is said
by line, column and rule; messages show none of its numbers, and no label with a digit in it."""

_MECHANISMS = {
    "correlated-gaussian": "CorrelatedGaussian",
    "extended-gaussian": "ExtendedGaussian",
    "extended-laplace": "ExtendedLaplace",
    "k-norm": "KNorm",
    "lattice-laplace": "LatticeLaplace",
    "lattice-gaussian": "LatticeGaussian",
    "projected-gaussian": "ProjectedGaussian",
    "projected-laplace": "ProjectedLaplace",
}
"""Name -> class; written down here so that --help does not import them."""

_PARAMETERS = ("epsilon", "delta", "rho", "mu", "norm", "sensitivity", "neighbours")


def add(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "release",
        run,
        title="release a confidential table with noise that keeps its invariants",
        text=_TEXT,
        example="bayesdp release table.csv --invariant margins:county --invariant margins:education "
        "--mechanism lattice-laplace\n      --epsilon 0.25 --norm l1 -o release.nc",
    )
    command.add_argument("table", metavar="TABLE", help="the confidential table, .csv or .nc")
    add_repeatable(
        command, "--invariant", "QUERY", f"what is published exactly: {FORMS.removesuffix(', cells')}", required=True
    )
    command.add_argument("--mechanism", required=True, choices=sorted(_MECHANISMS), help="how the noise is drawn")
    command.add_argument("--epsilon", type=float, help="privacy loss; with --delta for the Gaussian mechanisms")
    command.add_argument("--delta", type=float, help="probability of a larger loss, with --epsilon")
    command.add_argument("--rho", type=float, help="zero-concentrated privacy loss of the Gaussian mechanisms")
    command.add_argument("--mu", type=float, help="Gaussian privacy loss of the mechanisms with real normal noise")
    command.add_argument(
        "--query",
        action="append",
        metavar="QUERY",
        help=f"what the noise is added to, for mechanisms with real noise: {FORMS}; repeat to stack (default: cells)",
    )
    command.add_argument(
        "--neighbours",
        choices=("substitution", "add-remove"),
        help="what one person can change, for mechanisms with real noise (default: substitution)",
    )
    command.add_argument("--norm", choices=("l1", "l2"), help="norm of the lattice Laplace noise (default: l1)")
    command.add_argument(
        "--sensitivity", type=float, help="size of the difference, in counts, that the loss refers to (default: 1)"
    )
    command.add_argument("--seed", type=int, help="seed of a simulated release, which protects nobody")
    add_table_options(command)
    add_output(command, "the release: release.nc, or release.csv with release.noise.json beside it")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from dataclasses import MISSING, fields
    from functools import reduce
    from operator import add as add_queries

    import numpy as np

    from bayesdp import mechanisms
    from bayesdp.cli.files import check_release_path, write_release
    from bayesdp.cli.printing import announce
    from bayesdp.cli.queries import parse_query
    from bayesdp.frames import Frame
    from bayesdp.invariants import Invariants
    from bayesdp.tables import read_table

    check_release_path(args.output, force=args.force)
    table = read_table(args.table, **table_options(args), confidential=True)
    frame = Frame.of(table)
    invariants = Invariants([parse_query(text, frame) for text in args.invariant]).query
    kind = getattr(mechanisms, _MECHANISMS[args.mechanism])
    known = [item.name for item in fields(kind) if item.name in _PARAMETERS]
    given = {key: getattr(args, key) for key in _PARAMETERS if getattr(args, key) is not None}
    for key in given:
        if key not in known:
            raise ValueError(f"--{key} is no parameter of {args.mechanism}, which takes --{', --'.join(known)}")
    for item in fields(kind):
        if item.default is MISSING and item.name in _PARAMETERS and item.name not in given:
            raise ValueError(f"{args.mechanism} needs --{item.name}")
    if args.query:
        if "query" not in [item.name for item in fields(kind)]:
            raise ValueError(f"--query is no parameter of {args.mechanism}, whose noise is on the cells")
        given["query"] = reduce(add_queries, [parse_query(text, frame) for text in args.query])
    mechanism = kind(invariants, **given)
    rng = None if args.seed is None else np.random.default_rng(args.seed)
    release = mechanism.release(table, rng=rng)
    write_release(release, args.output, force=args.force)
    announce(args.output, f"{release!r}\n\n{release.guarantee}\n\nwritten to {args.output}")
    return 0
