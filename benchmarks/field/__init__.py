"""What the crawlers of the field do at the sites of `robotgate judge`: see `benchmarks.field.__main__`."""
