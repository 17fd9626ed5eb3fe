"""Networks, and the scorers that make them usable by a search."""
