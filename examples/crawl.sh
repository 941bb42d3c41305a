#!/bin/sh
# Fetches the URLs of a file by the options of crawl.toml. Type it again to continue after an interruption.
#
# sh examples/crawl.sh urls.txt

robotgate --config "$(dirname "$0")/crawl.toml" fetch --input "$1"
