"""``python -m corrhash`` is the command ``corrhash``."""

from corrhash.cli import main

main()
