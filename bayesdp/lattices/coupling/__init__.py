"""How far the noise of a chain on a lattice is from its law, estimated by coupled chains.

- `conditional`: the law in the coordinates of a basis, one of them given all others, and the chain;
- `coupling`: two chains that meet, the estimated bound and its upper confidence limit.
"""
