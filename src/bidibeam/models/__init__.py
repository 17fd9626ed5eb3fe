"""Models: the seam, the loader and the kinds of model."""
