"""From one answer for a robots.txt to the next question: redirects, and copies that need only be confirmed.

Pure functions of an answer and of what is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate._access import Ending, Failure
from robotgate._freshness import Validators
from robotgate._redirect import REDIRECT_STATUSES
from robotgate._status import MAX_REDIRECTS, NOT_MODIFIED, PRECONDITION_FAILED, Outcome, outcome_of
from robotgate._urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robotgate._access import Answer, RobotsRecord


def redirect_target(url: str, answer: Answer) -> str | None:
    """Where an answer sends us, as an absolute URL; None when it does not redirect or names no place.

    The place may still be no http URL at all: asking for it is what finds out.
    """
    if answer.status not in REDIRECT_STATUSES or not answer.location:
        return None
    try:
        target = parse_url(url).join(parse_url(answer.location.strip()))
        return str(target.with_fragment(None).with_user(None) if target.raw_host else target)
    except ValueError:
        return None


def conditions(known: RobotsRecord | None, url: str) -> Mapping[str, str]:
    """The headers that ask a URL for a file only if it is another than the copy we have; none where we have none of it.

    A copy that was read elsewhere says nothing of this URL.
    """
    if known is None or known.fetched_at is None or known.robots_url != url:
        return {}
    return Validators(known.etag, known.last_modified).conditions()


def is_beside_the_point(known: RobotsRecord, answer: Answer | Failure) -> bool:
    """Whether an answer to a request with `conditions` is none to its question, which is then put without them.

    That is a 304 that confirms some other copy (RFC 9111 §4.3.4), or has a body, which aiohttp takes for the start of
    another answer; and a 412, which is no answer to these conditions.
    """
    if isinstance(answer, Failure):
        return answer.is_garbled
    if answer.status not in (NOT_MODIFIED, PRECONDITION_FAILED):
        return False
    ours = Validators(known.etag, known.last_modified)
    confirmed = Validators(answer.etag, answer.last_modified)
    return answer.status == PRECONDITION_FAILED or not ours.may_be_of_one_copy_with(confirmed)


def follow(
    url: str, redirects: tuple[str, ...], answer: Answer | Failure, *, is_conditional: bool = False
) -> Ending | str:
    """What comes after an answer: the URL to ask next, or the end (RFC 9309 §2.3.1.2).

    Args:
        url: what was asked.
        redirects: the URLs that redirected to it, first to last.
        is_conditional: whether it was asked under `conditions`, so that 304 says something.
    """
    if isinstance(answer, Failure):
        outcome = Outcome.NON_PUBLIC_NAME if answer.is_non_public else Outcome.FAILURE
        return Ending(outcome, answer, url, redirects)
    target = redirect_target(url, answer)
    if target is None:
        return Ending(outcome_of(answer.status, is_conditional=is_conditional), answer, url, redirects)
    if len(redirects) == MAX_REDIRECTS:
        return Ending(Outcome.LOST, answer, url, redirects)
    return target
