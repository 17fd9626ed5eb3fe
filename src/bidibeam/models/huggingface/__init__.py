"""Hugging Face models: searched step by step or by way of `generate`, and trained in either direction."""
