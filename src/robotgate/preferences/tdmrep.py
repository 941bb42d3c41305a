"""``/.well-known/tdmrep.json`` (TDM Reservation Protocol): an array of rules, of which the first that matches holds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from robotgate.preferences.values import Reading, read_reservation
from robotgate.rules.match import matches
from robotgate.rules.normal import pattern_units, with_query_unescaped
from robotgate.statements import Source, Standard, Statement

MAX_TDMREP_BYTES: Final = 1_000_000
"""A longer file is not read: a part of one is no JSON."""
MAX_RULES: Final = 1_000


@dataclass(frozen=True, slots=True)
class TdmRule:
    """One object of the array."""

    location: str
    """The path pattern, as written."""
    pattern: str
    """The same in units."""
    reservation: str
    """As JSON."""
    policy: str | None


@dataclass(frozen=True, slots=True)
class TdmRep:
    """The rules of one origin's file. An absent file has no rules, which grants nothing."""

    rules: tuple[TdmRule, ...] = ()
    problem: str | None = None
    """What in the file could not be read."""

    @classmethod
    def parse(cls, body: bytes) -> TdmRep:
        """Read a file as it was served; any bytes are accepted."""
        if len(body) > MAX_TDMREP_BYTES:
            return cls(problem=f"longer than {MAX_TDMREP_BYTES:,} bytes, so it is not read")
        try:
            found: object = json.loads(body)
        except (ValueError, RecursionError):
            return cls(problem="not JSON")
        if not isinstance(found, list):
            return cls(problem="not a JSON array")
        rules: list[TdmRule] = []
        problem = f"only its first {MAX_RULES:,} rules are read" if len(found) > MAX_RULES else None
        for each in found[:MAX_RULES]:
            match each:
                case {"location": str(location)} if location.startswith(("/", "*")):
                    policy = each.get("tdm-policy")
                    pattern = pattern_units(location.replace("\n", "%0A"))
                    reservation = json.dumps(each.get("tdm-reservation"))
                    policy = policy if isinstance(policy, str) else None
                    rules.append(TdmRule(location, pattern, reservation, policy))
                case _:
                    problem = problem or "a rule without a path as its location is left out"
        return cls(tuple(rules), problem)

    def of(self, target: str) -> list[Statement]:
        """The statement for a target: path and query in units."""
        target = with_query_unescaped(target)
        rule = next((rule for rule in self.rules if matches(rule.pattern, target)), None)
        if rule is not None:
            reading = read_reservation(rule.reservation)
            if rule.reservation == "1":
                reading.reference = rule.policy
            words = f'"location": {json.dumps(rule.location)}, "tdm-reservation": {rule.reservation}'
        elif self.problem is not None:
            reading, words = Reading(broken=[self.problem]), ""
        else:
            return []
        return [reading.statement(Standard.TDMREP, Source.FILE, "tdm-reservation", words)]
