"""The operator's options, refused by name when they make no sense."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from robotgate._checks import (
    check_choice,
    check_flag,
    check_number,
    check_part,
    check_patience,
    check_seconds,
    check_whole,
)
from robotgate._errors import OptionError
from robotgate._overrides import HostOptions, Overrides
from robotgate._pace_key import PaceKey, pace_key_function
from robotgate._quota import rate_of
from robotgate._recheck import Recheck
from robotgate._status import StatusPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robotgate._overrides import HostOverride
    from robotgate._pace_key import PaceKeyPolicy


MAX_FETCH_BYTES: Final = 10 * 1024 * 1024
MAX_HOSTS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an operator can set; `RobotGate` documents each, and has the same defaults."""

    delay: float = 1.0
    concurrency_per_host: int = 1
    concurrency: int = 256
    max_delay: float = 60.0
    max_wait: float | None = None
    max_block: float = 300.0
    robots_concurrency: int = 256
    allow_private_addresses: bool = False
    status_policy: StatusPolicy = StatusPolicy.DEFAULT
    max_bytes: int = MAX_FETCH_BYTES
    max_hosts: int = MAX_HOSTS
    middleware_timeout: float | None = None
    rate: tuple[int, float] | None = None
    total_rate: tuple[int, float] | None = None
    robots_rate: tuple[int, float] | None = None
    latency_factor: float = 0.0
    obey_crawl_delay: bool = True
    obey_visit_time: bool = False
    pace_key: PaceKeyPolicy = PaceKey.HOST
    overrides: Mapping[str, HostOverride] = field(default_factory=dict)
    recheck: Recheck | None = None

    def __post_init__(self) -> None:
        check_seconds("delay", self.delay)
        for name in ("max_delay", "max_block"):
            check_patience(name, getattr(self, name))
        if self.max_wait is not None:
            check_seconds("max_wait", self.max_wait)
        if self.middleware_timeout is not None:
            check_seconds("middleware_timeout", self.middleware_timeout)
        for name in ("concurrency_per_host", "concurrency", "robots_concurrency", "max_bytes", "max_hosts"):
            check_whole(name, getattr(self, name), least=1)
        for name in ("rate", "total_rate", "robots_rate"):
            rate_of(name, getattr(self, name))
        check_number("latency_factor", self.latency_factor)
        for name in ("allow_private_addresses", "obey_crawl_delay", "obey_visit_time"):
            check_flag(name, getattr(self, name))
        check_part("recheck", self.recheck, Recheck)
        check_choice("status_policy", self.status_policy, StatusPolicy)
        if self.delay > self.max_delay:
            raise OptionError(
                f"delay={self.delay!r} is over max_delay={self.max_delay!r}: every site would be refused"
            )
        pace_key_function(self.pace_key)
        Overrides(self.host_options(), self.overrides)

    def host_options(self) -> HostOptions:
        """What holds for a host that no override names."""
        return HostOptions(
            delay=self.delay,
            rate=rate_of("rate", self.rate),
            concurrency=self.concurrency_per_host,
            max_delay=self.max_delay,
            max_block=self.max_block,
            latency_factor=self.latency_factor,
            obey_crawl_delay=self.obey_crawl_delay,
            obey_visit_time=self.obey_visit_time,
            status_policy=self.status_policy,
            ignore_robots=False,
        )
