"""How often a host is visited. No I/O; the scheduler has one timer, and the futures of waiting turns.

::

    state       what is known of a host, and the arithmetic of its instants
    spacing     what a site's robots.txt asks about our speed
    signals     what an answer asks about it
    quota       at most so many starts in any so many seconds
    budget      so many pages or bytes, and bytes a second
    lease       whether this process may pace a host, of a store that several share
    learned     the delay that a host teaches us where it does not say
    turn        the states of a turn, its moves, and the permits that it holds
    promises    when a task that asked too soon is to come again
    host        one host: its limits, its waiting and its open turns
    scope       what several hosts share: an address, a group, all hosts
    shares      the parts of what a fleet shares of all hosts
    trying      turns that do not wait in line, but are promised a place
    timer       the one timer of a scheduler, and others
    alarms      when hosts and scopes are looked at again, and the deadlines of turns
    scheduler   which waiting turn is granted next, over all hosts
    answers     what came of a request, and who waits on because of it
    store_work  what the scheduler and the store's side tell each other
"""
