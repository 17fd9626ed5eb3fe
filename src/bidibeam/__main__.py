"""`python -m bidibeam`."""

from bidibeam.cli.main import main

main()
