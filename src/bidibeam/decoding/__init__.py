"""Beams, and the choice among them: sources in, replies out."""
