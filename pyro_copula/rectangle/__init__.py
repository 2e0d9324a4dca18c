"""Probabilities of boxes under Gaussian vectors on a graph: what exact discrete likelihoods need.

Importing the modules below imports numba, hence callers import them inside functions.
"""
