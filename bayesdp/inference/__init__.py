"""From a release to a posterior. Importing this package registers the step methods with PyMC."""

from bayesdp.distributions.confidential_counts import ConfidentialCounts, FlatCounts
from bayesdp.inference.diagnostics import diagnose
from bayesdp.inference.observed import releases_of
from bayesdp.inference.observing import feasible_point, observe, set_release
from bayesdp.inference.predictive import add_log_likelihood, add_prior_predictive
from bayesdp.inference.runs.running import tells_of_draws
from bayesdp.inference.sampling import annotate, sample
from bayesdp.steps import FiberGibbs
from bayesdp.storage.journal import holds_draws, remove_journal

__all__ = [
    "ConfidentialCounts", "FiberGibbs", "FlatCounts", "add_log_likelihood", "add_prior_predictive", "annotate", "diagnose",
    "feasible_point", "holds_draws", "observe", "releases_of", "remove_journal", "sample", "set_release", "tells_of_draws",
]  # fmt: skip
