"""The iterative engine: precisions whose exact factor would fill in.

Nothing is factored. With ``K = D^1/2 (I - S) D^1/2``, ``D`` the diagonal, everything comes from
products with ``S`` on blocks of vectors:

- solves by conjugate gradients;
- log determinants by stochastic Lanczos quadrature, from the same iterations;
- entries of the inverse by averages over random signs;
- draws from a square root that the edges themselves are.

The averages are unbiased and carry their standard errors. A control variate, a polynomial in ``S``
plus the top eigenvectors, takes most of their noise away.
"""
