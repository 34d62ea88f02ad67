"""The K-norm mechanism: noise in the norm whose unit ball is a polytope."""
