"""Beam search over anything that can score the next token; it knows no network."""
