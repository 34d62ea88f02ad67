"""The posterior kernel: a table of counts that takes steps along random directions, each from its exact conditional law.

- `state`: the arrays that it works on, and how prior and noise are written into them;
- `sweep`: its doors, many moves in one call;
- `short`: the commonest case in one loop; `line`: one step in general;
- `weights`, `wide`, `ratios`: the law along a direction, by tables of weights, by rejection or slices, and by ratios.
"""
