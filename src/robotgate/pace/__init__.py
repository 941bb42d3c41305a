"""How often a host is visited. No I/O; the scheduler has one timer, and the futures of waiting turns.

::

    state      what is known of a host, and the arithmetic of its instants
    spacing    what a site asks about our speed
    host       one host: its limits and quotas, its waiting and its open turns
    scheduler  which waiting turn is granted next, over all hosts, and the permits for them
"""
