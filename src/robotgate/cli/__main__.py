"""``python -m robotgate.cli``."""

from robotgate.cli import main

if __name__ == "__main__":
    main()
