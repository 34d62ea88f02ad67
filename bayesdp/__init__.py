"""Bayesian inference from differentially private releases that keep exact statistics.

Every name below is imported when it is first used (PEP 562), so that ``import bayesdp`` and ``bayesdp --help`` start in a moment and
do not load PyMC. The rest of the package is reached as ``bayesdp.noise``, ``bayesdp.privacy`` and so on.

Examples
--------
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children()
>>> margins = bdp.Margins(table, ["county"], ["education"])
>>> margins.names[0]
'county=Alpha'
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from bayesdp._wiring import connect

if TYPE_CHECKING:
    from bayesdp import (
        calibration,
        datasets,
        distributions,
        hierarchies,
        inference,
        mechanisms,
        noise,
        papers,
        plots,
        priors,
        privacy,
        report,
        significance,
        tables,
    )
    from bayesdp.calibration import design
    from bayesdp.frames import Frame
    from bayesdp.hierarchies import gls
    from bayesdp.inference import (
        ConfidentialCounts,
        FlatCounts,
        feasible_point,
        observe,
        sample,
        set_release,
    )
    from bayesdp.invariants import Invariants
    from bayesdp.measurements import suppressed, thresholded, top_coded
    from bayesdp.measurements.consistency import LawCheck, PostProcessedWarning
    from bayesdp.mechanisms import (
        BoundaryInflatedLaplace,
        CorrelatedGaussian,
        ExtendedGaussian,
        ExtendedLaplace,
        KNorm,
        LatticeGaussian,
        LatticeLaplace,
        ProjectedGaussian,
        ProjectedLaplace,
        SemiGaussian,
        SemiKNorm,
        SemiNorm,
        TruncatedLaplace,
    )
    from bayesdp.mechanisms.composition import Composition, check_law, compose, is_nested
    from bayesdp.posterior import Derived, LawComparison, compare_laws, published_table, summary
    from bayesdp.queries import Identity, LinearQuery, Margins, Totals
    from bayesdp.release import Exact, Measured, Release
    from bayesdp.streaming import fit_cells, fit_hierarchy, fit_parts

__version__ = "0.1.0"

__all__ = [
    "BoundaryInflatedLaplace", "Composition", "ConfidentialCounts", "CorrelatedGaussian", "Derived", "Exact",
    "ExtendedGaussian", "ExtendedLaplace", "FlatCounts", "Frame", "Identity", "Invariants", "KNorm", "LatticeGaussian",
    "LatticeLaplace", "LawCheck", "LawComparison", "LinearQuery", "Margins", "Measured", "PostProcessedWarning",
    "ProjectedGaussian", "ProjectedLaplace", "Release", "SemiGaussian", "SemiKNorm", "SemiNorm", "Totals",
    "TruncatedLaplace", "__version__", "calibration", "check_law", "compare_laws", "compose", "datasets", "design", "distributions",
    "feasible_point", "fit_cells", "fit_hierarchy", "fit_parts", "gls", "hierarchies", "inference", "is_nested", "mechanisms",
    "noise", "observe", "papers", "plots", "priors", "privacy", "published_table", "report", "sample", "set_release",
    "significance", "summary", "suppressed", "tables", "thresholded", "top_coded",
]  # fmt: skip

_HOMES: Final[Mapping[str, str]] = {
    "calibration": "design",
    "frames": "Frame",
    "hierarchies": "gls",
    "inference": "ConfidentialCounts FlatCounts feasible_point observe sample set_release",
    "invariants": "Invariants",
    "mechanisms": "BoundaryInflatedLaplace CorrelatedGaussian ExtendedGaussian ExtendedLaplace KNorm LatticeGaussian LatticeLaplace "
    "ProjectedGaussian ProjectedLaplace SemiGaussian SemiKNorm SemiNorm TruncatedLaplace",
    "mechanisms.composition": "Composition check_law compose is_nested",
    "measurements": "suppressed thresholded top_coded",
    "measurements.consistency": "LawCheck PostProcessedWarning",
    "posterior": "Derived LawComparison compare_laws published_table summary",
    "queries": "Identity LinearQuery Margins Totals",
    "release": "Exact Measured Release",
    "streaming": "fit_cells fit_hierarchy fit_parts",
}
"""Module -> the public names that it defines."""

_HOME: Final = {name: f"bayesdp.{module}" for module, names in _HOMES.items() for name in names.split()}
"""Public name -> the module that defines it."""

_SUBMODULES: Final = frozenset(__all__) - {*_HOME, "__version__"}
"""Modules that users reach as attributes of the package."""


# The only calls that go upwards; their callers are below the modules named here. Laws and
# mechanisms of papers are imported when a file names them.
for _purpose, _module, _function in (
    ("check what a release states", "bayesdp.mechanisms.stated", "check_stated"),
    ("check a total", "bayesdp.mechanisms.composition.stated", "check_total"),
    ("make a dataset", "bayesdp.storage.netcdf", "to_dataset"),
    ("read a dataset", "bayesdp.storage.netcdf", "from_dataset"),
    ("write netCDF", "bayesdp.storage.netcdf", "write_netcdf"),
    ("read netCDF", "bayesdp.storage.netcdf", "read_netcdf"),
    ("write CSV", "bayesdp.storage.noise_csv", "write_noise_csv"),
    ("read CSV", "bayesdp.storage.noise_csv", "read_noise_csv"),
    ("draw a design", "bayesdp.plots.comparisons", "designs"),
    ("draw a check of a law", "bayesdp.plots.comparisons", "draw_law_check"),
    ("law rescaled-laplace", "bayesdp.papers.bounded_statistics", "RescaledLaplace"),
    ("distribution rescaled-laplace", "bayesdp.papers.models", "RescaledLaplace"),
    ("mechanism rescaled-proportions", "bayesdp.papers.bounded_statistics", "RescaledProportions"),
    ("mechanism all-but-one", "bayesdp.papers.bounded_statistics", "AllButOne"),
    ("mechanism universal-histogram", "bayesdp.papers.bounded_statistics", "UniversalHistogram"),
    ("mechanism covariance-matrix", "bayesdp.papers.covariance_cone", "CovarianceMatrix"),
    ("register step methods", "bayesdp.steps", "register"),
):
    connect(_purpose, _module, _function)


def __dir__() -> list[str]:
    """List the public names, loaded or not, and nothing else."""
    return sorted(__all__)


# Hidden from type checkers: they read the imports above, and would take any misspelt name for granted
# if they saw a module-level __getattr__.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name when it is first asked for, and keep it."""
        if name in _SUBMODULES:
            return import_module(f"bayesdp.{name}")
        if name in _HOME:
            value = getattr(import_module(_HOME[name]), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module 'bayesdp' has no attribute {name!r}; it offers {', '.join(__all__)}")
