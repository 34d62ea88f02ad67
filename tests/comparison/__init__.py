"""The one harness of statistical comparison: enumeration, chi-square, total variation, means and variances.

Every test of a sampler calls it. What it would compare in one bin only is an error and never "fine".
"""
