"""Mechanisms with real noise on the answers of any query, in the subspace that the invariants leave free."""
