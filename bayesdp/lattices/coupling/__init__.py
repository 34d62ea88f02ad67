"""How far the noise of a chain on a lattice is from its law, estimated by coupled chains.

- `basis_law`: the law in the coordinates of a basis; `conditional`: one coordinate given all others;
- `basis_gibbs`: the chain; `coupled_updates`: two of them that meet;
- `coupling`: the estimated bound; `upper_limit`: its upper confidence limit.
"""
