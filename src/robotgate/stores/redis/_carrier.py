"""Carries one batch of calls to the server, and their replies back."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from redis.exceptions import NoScriptError, RedisError, ResponseError

from robotgate.stores.redis._calls import Trip, evalsha, script_load
from robotgate.stores.redis._faults import Kind, explained, fault
from robotgate.stores.redis._line import Line

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from robotgate._errors import StoreError
    from robotgate.stores.redis._calls import Batch, Call
    from robotgate.stores.redis._faults import Fault


class Carrier:
    """Runs the scripts of a batch, whose calls it settles once their replies have come, and the next batch is sent.

    Args:
        client: whose connections are copied.
        server: its name, for errors.
    """

    def __init__(self, client: Redis, server: str) -> None:
        self._line = Line(client)
        self._server = server

    async def carry(self, batch: Batch, *, within: float) -> Fault | None:
        """Why the batch did not arrive, or not all of it; what did is no longer in it then.

        A connection may have been closed, or its server have become a replica, while nobody looked. So what fails on
        one that was open before is tried again at once on a new one. Who does not answer is given no second chance.

        Args:
            within: seconds for each attempt.
        """
        was_open = self._line.is_open
        found = await self._try(batch, within)
        if found is None or not was_open or found.code == "TIMEOUT":
            return found
        return await self._try(batch, within)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._line.aclose()

    async def _try(self, batch: Batch, within: float) -> Fault | None:
        try:
            async with asyncio.timeout(within):
                await self._exchange(batch)
        except (RedisError, OSError) as error:
            # Sentinel may know another server by now; and what a late reply would answer is asked again.
            await self._line.drop()
            return explained(self._server, error)
        return None

    async def _exchange(self, batch: Batch) -> None:
        groups = batch.groups
        shas = list(groups)
        sent_at = monotonic()
        found = dict(zip(shas, await self._line.run([evalsha(groups[sha]) for sha in shas]), strict=True))
        unknown = [sha for sha in shas if isinstance(found[sha], NoScriptError)]
        if unknown:
            found |= await self._load(batch, unknown)
        trip = Trip(sent_at, monotonic())
        faults = [self._deal_out(batch, sha, reply, trip) for sha, reply in found.items() if sha in groups]
        for error in filter(None, faults):
            raise error
        # What is left failed inside a script: one call of many, as a rule, and the others should not pay for it.
        for calls in list(groups.values()):
            await self._singly(batch, calls)

    async def _load(self, batch: Batch, shas: list[str]) -> dict[str, object]:
        """Make scripts known to the server, and their replies."""
        commands = []
        for sha in shas:
            calls = batch.groups[sha]
            commands += [script_load(calls[0].script), evalsha(calls)]
        replies = await self._line.run(commands)
        found = {}
        for sha, loaded, reply in zip(shas, replies[::2], replies[1::2], strict=True):
            refused = explained(self._server, loaded) if isinstance(loaded, ResponseError) else None
            if refused is None:
                found[sha] = reply
            elif refused.kind is not Kind.CALL:
                found[sha] = loaded
            else:
                for call in batch.groups.pop(sha):
                    call.reject(refused.error)
        return found

    def _deal_out(self, batch: Batch, sha: str, reply: object, trip: Trip) -> ResponseError | None:
        """Settle the calls of one script. Returns what concerns all the server's callers."""
        calls = batch.groups[sha]
        if isinstance(reply, ResponseError):
            met = explained(self._server, reply)
            if met.kind is not Kind.CALL:
                return reply
            if len(calls) == 1:
                calls[0].reject(met.error)
                del batch.groups[sha]
            return None
        if isinstance(reply, list) and len(reply) == len(calls):
            # What waits is sent before: so the server works on it while they go on who have waited for these.
            asyncio.get_running_loop().call_soon(self._settle, calls, reply, trip)
        else:
            for call in calls:
                call.reject(self._senseless(reply))
        del batch.groups[sha]
        return None

    def _settle(self, calls: list[Call], replies: list[object], trip: Trip) -> None:
        """Give each call its own reply."""
        for call, answer in zip(calls, replies, strict=True):
            if isinstance(answer, bytes):
                call.settle(answer, trip)
            else:
                call.reject(self._senseless(answer))

    async def _singly(self, batch: Batch, calls: list[Call]) -> None:
        """Have the server run a script once for each call."""
        sha = calls[0].script.sha
        sent_at = monotonic()
        replies = await self._line.run([evalsha([call]) for call in calls])
        came_at = monotonic()
        left = []
        met: ResponseError | None = None
        for call, reply in zip(calls, replies, strict=True):
            if isinstance(reply, ResponseError):
                found = explained(self._server, reply)
                if found.kind is Kind.CALL:
                    call.reject(found.error)
                else:
                    left.append(call)
                    met = reply
            elif isinstance(reply, list) and len(reply) == 1 and isinstance(reply[0], bytes):
                # Each ran at an instant of its own.
                call.settle(reply[0], Trip(sent_at, came_at))
            else:
                call.reject(self._senseless(reply))
        if met is not None:
            batch.groups[sha] = left
            raise met
        del batch.groups[sha]

    def _senseless(self, reply: object) -> StoreError:
        if isinstance(reply, ResponseError):
            return fault(self._server, "SCRIPT", said=str(reply)).error
        return fault(self._server, "ANSWER", said=repr(reply)[:100]).error
