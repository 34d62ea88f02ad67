"""Mechanisms with integer noise that changes no invariant, and what a Markov chain of such noise costs."""
