"""Training a network, so that it can be killed at any moment and resumed."""
