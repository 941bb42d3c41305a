"""Measurements of robotgate: ``python -m benchmarks`` from the root of the repository; see `benchmarks.__main__`."""
