"""``robotgate demo``: a crawl of some thirty sites on this machine, judged by what their server saw.

`sites` is the table of the sites, `servers` serves them, `crawl` fetches their pages through robotgate in processes of
their own, and `judge` compares the server's log with the table. `robotgate.cli.demo` has the options and prints the
report.

Needs the extra ``robotgate[cli]``.
"""
