"""The one harness of statistical comparison, for every test of a sampler: what it would compare in one bin is an error, never fine."""
