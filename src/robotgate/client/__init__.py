"""The parts that talk to the web, by aiohttp.

::

    turns        from a URL to a turn that has begun, and to its end
    attempt      what is asked of `gate.fetch`, and one attempt at it: its turns within one timeout
    middleware   `gate.middleware`: a session's requests, each hop and attempt in a turn
    fetch        `gate.fetch`: a request of a session, read to its end, and whether it is sent again
    response     what it returns
    turn         a turn as a crawler has it
    ready        `gate.ready`: many URLs, as their hosts become due
    cache        the sites in memory: robots.txt requested once, renewed, evicted
    robots       one robots.txt over the network
    awaited      answers that must be awaited
    connector    sockets, and the addresses of names
    proxy        what a request goes through, and what that says or fails at in the site's place
    purposes     what pages are fetched for, and which sites allow it
    persistence  between the gate and its store
"""
