"""Small real tables, each with its source and licence, for examples and tests.

These tables are public. In the examples they play the part of a confidential table, so that a
posterior can be compared with the truth; nobody's secret is in them. Each is an
:class:`xarray.DataArray` of int64 counts whose attributes ``title``, ``source`` and ``licence`` say
where it is from. Two are releases, read as offices published them: `working_population` and `statsnz_age_by_sex`.
Functions whose names begin with ``read_`` read files that the user has: counts of the census and of demonstration releases of its
disclosure avoidance system, which are post-processed and for comparison only. Functions whose names begin
with ``noise_json_of_`` make ``noise.json`` of what other libraries say of their noise.
"""

from bayesdp.datasets.census_files import (
    demonstration_errors,
    read_county_demonstration,
    read_county_populations,
)
from bayesdp.datasets.nmf import code_query, published_codes, read_nmf, synthetic_spine, write_synthetic_nmf
from bayesdp.datasets.noise_adapters import noise_json_of_opendp, noise_json_of_pipelinedp, noise_json_of_tumult
from bayesdp.datasets.public_tables import (
    berkeley_admissions,
    delinquent_children,
    flights,
    illinois_counties,
    midwest_counties,
    morocco_communes,
    statsnz_age_by_sex,
    working_population,
)
from bayesdp.datasets.wikimedia import WIKIMEDIA_TERMS, WikimediaTerms, WikimediaViews, read_wikimedia

__all__ = [
    "WIKIMEDIA_TERMS", "WikimediaTerms", "WikimediaViews", "berkeley_admissions", "code_query", "delinquent_children",
    "demonstration_errors", "flights", "illinois_counties", "midwest_counties", "morocco_communes", "noise_json_of_opendp",
    "noise_json_of_pipelinedp", "noise_json_of_tumult", "published_codes", "read_county_demonstration",
    "read_county_populations", "read_nmf", "read_wikimedia", "statsnz_age_by_sex", "synthetic_spine",
    "working_population", "write_synthetic_nmf",
]  # fmt: skip
