"""The command line, ``pyro-copula``: it uses the public names of the package only."""
