"""How good replies are."""
