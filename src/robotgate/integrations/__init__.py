"""The gate inside other people's crawlers: one module for each, with an extra of its name, ``robotgate[scrapy]``.

Nothing else in the package imports from here, so nobody needs what he does not use.
"""
