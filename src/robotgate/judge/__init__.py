"""Sites that misbehave, and a judge of the crawlers that visit them.

`sites` draws sites from the table `sites.toml`, `servers` serves them, `run` leads a command there, and `judge`
compares the server's log with the table. `robotgate.cli.judge` and `robotgate.cli.demo` have the options,
`robotgate.cli.card` shows the result.

Needs the extra ``robotgate[cli]``.
"""
