"""robots.txt without I/O: from bytes to rules, and from rules to answers.

Reading order: `robotstxt` (the value that users hold), `rules` (the rules of one crawler), `match` (how a rule is
found), `verdict` (an answer and its reason), `parser` and `grammar` (how a file is read), `normal` (one spelling of
paths).
"""
