"""Which rules hold for an origin, from what was known and what its server answered; no I/O.

::

    status  the status table: what each answer for robots.txt means
    record  what is kept of a robots.txt, and how an answer changes it
    site    one origin in memory: its record, its rules, and how it is paced
"""
