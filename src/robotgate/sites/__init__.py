"""Which rules hold for an origin, from what was known and what its server answered; no I/O.

::

    status  the status table: what each answer for robots.txt means
    record  what is kept of a robots.txt, and how an answer changes it
    site    one origin in memory: its record, its rules, and how it is paced
    packed  what is known of a host, in a small form
    idle    the hosts that nobody uses
"""

from robotgate.sites.record import Answer, Failure, RobotsRecord
from robotgate.sites.site import HostAccess
from robotgate.sites.status_table import Outcome

__all__ = ["Answer", "Failure", "HostAccess", "Outcome", "RobotsRecord"]
