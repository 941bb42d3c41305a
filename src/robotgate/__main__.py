"""``python -m robotgate``."""

from robotgate.cli import main

if __name__ == "__main__":
    main()
