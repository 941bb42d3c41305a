"""Invariant: nothing raises, all ways of asking answer alike, the normal form is stable, a file twice is the file.

Whatever the file, the agent and the URL, in every dialect::

    python fuzz/fuzz_rules.py -max_total_time=60     # more options of libFuzzer's: -help=1
    python fuzz/fuzz_rules.py crash-…                # one input again

An input is an agent, a path and a file, each on a line of its own; the file goes on to the end. With atheris, inputs
are bred by what code they reach. Without it (it has wheels for Linux on x86-64 only) they are random mutations of
the seeds, which is far less, and the output says so. Either way it ends with a status other than 0, and the input in
a file ``crash-…``, when the invariant is broken. What broke it once belongs in ``corpus/``: the tests check all that
is there.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import random
import re
import sys
import time
from pathlib import Path
from typing import Final

try:
    import atheris
except ModuleNotFoundError:
    IS_GUIDED = False
    instrumented = contextlib.nullcontext()
else:
    IS_GUIDED = True
    instrumented = atheris.instrument_imports(include=["robotgate"])

with instrumented:
    from robotgate import Dialect, InvalidURLError, RobotsTxt
    from robotgate.rules.decode import ENCODED
    from robotgate.rules.normal import pattern_units, target_units

HERE: Final = Path(__file__).parent
SEEDS: Final = tuple(sorted((HERE / "corpus").iterdir()))
DICTIONARY: Final = HERE / "rules.dict"
ORIGIN: Final = "http://www.example.com"
MAX_LENGTH: Final = 4096

_ESCAPE: Final = re.compile("%[0-9A-Fa-f]{2}")
_BOM: Final = b"\xef\xbb\xbf"
# Ends the last record in the one dialect, the last group in the other, and begins one that binds nobody.
_BETWEEN: Final = {Dialect.RFC9309: b"\nDisallow:\nUser-agent:\n", Dialect.CLASSIC: b"\n\n"}


def check(data: bytes) -> None:
    """Hold the invariant against one input.

    Raises:
        AssertionError: it is broken. So it is by any other error.
    """
    first, _, rest = data.partition(b"\n")
    second, _, body = rest.partition(b"\n")
    agent, target = (line.decode("utf-8", "surrogateescape") for line in (first, second))
    check_normal_form(f"/{target}")
    for dialect in Dialect:
        robots = RobotsTxt.parse(body, ORIGIN, dialect=dialect)
        check_answers(robots, agent, f"/{target}")
        check_answers(robots, agent, f"{ORIGIN}/{target}")
        check_answers(robots, agent, target)
        check_twice(robots, body, agent, f"/{target.lstrip('/')}")
        for pattern in {rule.path_pattern for group in robots.groups for rule in group.rules}:
            normal = spelt(pattern_units(pattern))
            assert spelt(pattern_units(normal)) == normal


def spelt(units: str) -> str:
    """Units as text, each escaped byte as its escape."""
    return "".join(unit if unit.isascii() else f"%{ord(unit) % 0x100:02X}" for unit in units)


def check_normal_form(target: str) -> None:
    """Normalising again changes nothing."""
    normal = spelt(target_units(target))
    assert spelt(target_units(normal)) == normal
    assert normal.isascii()


def check_answers(robots: RobotsTxt, agent: str, url: str) -> None:
    """All doors give one answer, however escapes are spelt; robots.txt is free; what is asked of us can be done."""
    try:
        verdict = robots.verdict(url, agent)
    except InvalidURLError:
        # What is not judged by one is not judged by the other.
        with contextlib.suppress(InvalidURLError):
            robots.allowed(url, agent)
            raise AssertionError(url) from None
        return
    assert robots.allowed(url, agent) is verdict.allowed
    rules = robots.rules(agent)
    assert verdict.group == rules.agents
    if url.startswith("/"):
        assert rules.allows(url) is rules.decide(url).allowed
        assert rules.allows(url) is rules.allows(spelt(target_units(url)))
        assert rules.allows(url) is rules.allows(_ESCAPE.sub(lambda match: match[0].swapcase(), url))
    assert rules.allows("/robots.txt")
    assert all(0 < rate.seconds_per_document < float("inf") for rate in rules.request_rates)
    assert rules.crawl_delay is None or 0 <= rules.crawl_delay < float("inf")
    assert not (rules.disallows_nothing and not verdict.allowed)
    assert not (rules.disallows_everything and rules.allows("/"))


def check_twice(robots: RobotsTxt, body: bytes, agent: str, target: str) -> None:
    """Groups that come again change nothing."""
    if body.startswith(ENCODED) or (body.startswith(_BOM[:1]) and not body.startswith(_BOM)):
        # Within a file, the begin of another form is none, nor is an incomplete byte order mark.
        return
    twice = RobotsTxt.parse(body + _BETWEEN[robots.dialect] + body, ORIGIN, dialect=robots.dialect)
    one, other = robots.verdict(target, agent), twice.verdict(target, agent)
    assert (one.allowed, one.rule, one.crawl_delay) == (other.allowed, other.rule, other.crawl_delay)
    assert robots.request_rate(agent) == twice.request_rate(agent)
    assert robots.sitemaps == twice.sitemaps


def fuzz_by_coverage(arguments: list[str]) -> None:
    """Hand over to libFuzzer, which ends the process."""
    seeds = ",".join(map(str, SEEDS))
    defaults = [f"-seed_inputs={seeds}", f"-dict={DICTIONARY}", f"-max_len={MAX_LENGTH}", "-timeout=10"]
    atheris.Setup([sys.argv[0], *defaults, *arguments], check)
    atheris.Fuzz()


def fuzz_at_random(seconds: float) -> int:
    """Check mutated seeds for a while.

    Returns:
        How many were checked.
    """
    pool = [seed.read_bytes() for seed in SEEDS]
    tokens = dictionary()
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        count += 1
        dice = random.Random(count)
        data = dice.choice(pool)
        for _ in range(dice.randint(1, 8)):
            data = mutated(data, dice, pool, tokens)[:MAX_LENGTH]
        check_and_keep(data)
    return count


def mutated(data: bytes, dice: random.Random, pool: list[bytes], tokens: list[bytes]) -> bytes:
    """The input with one span of it replaced: by nothing, a token, an octet, itself twice, or a span of a seed."""
    begin = dice.randint(0, len(data))
    end = min(len(data), begin + int(dice.expovariate(0.1)))
    other = dice.choice(pool)
    at = dice.randint(0, len(other))
    span = dice.choice(
        [
            b"",
            dice.choice(tokens),
            dice.randbytes(1),
            data[begin:end] * 2,
            other[at : at + int(dice.expovariate(0.03))],
        ]
    )
    return data[:begin] + span + data[end:]


def dictionary() -> list[bytes]:
    """The tokens that libFuzzer is given too."""
    lines = DICTIONARY.read_text(encoding="ascii").splitlines()
    return [ast.literal_eval(f"b{line}") for line in lines if line.startswith('"')]


def check_and_keep(data: bytes) -> None:
    """Check an input; what breaks the invariant is written to a file, as libFuzzer does."""
    held = False
    try:
        check(data)
        held = True
    finally:
        if not held:
            crash = Path(f"crash-{hashlib.sha256(data).hexdigest()}")
            crash.write_bytes(data)
            print(f"the invariant is broken by {crash}: {data!r}", file=sys.stderr)


def main(arguments: list[str]) -> None:
    """Fuzz as libFuzzer's options say; without atheris, only ``-max_total_time`` and single inputs are known."""
    if IS_GUIDED:
        fuzz_by_coverage(arguments)
        return
    inputs = [argument for argument in arguments if not argument.startswith("-")]
    for path in inputs:
        check_and_keep(Path(path).read_bytes())
    if inputs:
        return
    print("no atheris for this Python: random mutations of the seeds instead, blind to what code they reach")
    options = dict(argument.lstrip("-").split("=", 1) for argument in arguments)
    seconds = float(options.get("max_total_time", "60"))
    print(f"{fuzz_at_random(seconds)} inputs in {seconds:g} s: the invariant held")


if __name__ == "__main__":
    main(sys.argv[1:])
