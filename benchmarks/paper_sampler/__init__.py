"""The Metropolis sampler of paper 002, which ours is compared with: alone (`double_geometric`) and coupled (`coupled`)."""
