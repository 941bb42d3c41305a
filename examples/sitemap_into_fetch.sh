#!/bin/sh
# Fetches the pages that a site's sitemaps name, and prints a row of JSON for each.
#
# sh examples/sitemap_into_fetch.sh you@example.org https://example.org/

robotgate sitemap --contact "$1" "$2" | robotgate fetch --contact "$1" --quiet --input -
