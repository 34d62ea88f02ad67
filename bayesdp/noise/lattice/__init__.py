"""Integer noise that changes no invariant: its tables are the points of a lattice."""
