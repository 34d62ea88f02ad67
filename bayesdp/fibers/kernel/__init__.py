"""The posterior kernel: a table of counts that takes steps along random directions, each from its exact conditional law.

- `state`: the arrays that it works on, and how prior and noise are written into them;
- `sweep`: its doors, many moves in one call, and one step in general;
- `weights`: the law along a direction, by ratios, tables of weights, rejection or slices;
- `classes`: answers about the same records, which count once;
- `occupied_moves`: directions that are drawn by looking at which cells are not 0.
"""
