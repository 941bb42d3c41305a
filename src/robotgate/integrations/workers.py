"""A gate for worker processes whose tasks are plain functions, as those of Celery, Dramatiq and RQ are.

Such workers fork, and have no event loop. So the gate is opened in the process that uses it, when it first does, and
its loop runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Unpack

from robotgate.gate import RobotGate

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from robotgate.gate_options import GateOptions
    from robotgate.threads import ThreadsafeGate

__all__ = ["WorkerGate"]


class WorkerGate:
    """One gate in each process that uses it: make it where tasks are defined, and use `threadsafe` in them.

    Args:
        agent, contact, options: as of `RobotGate`. Processes that crawl together need a `store`, or owners.

    Raises:
        OptionError, TypeError: as `RobotGate`.
    """

    def __init__(self, agent: str, *, contact: str, **options: Unpack[GateOptions]) -> None:
        self._make = partial(RobotGate, agent, contact=contact, **options)
        # A wrong option is told of where the worker starts, and not by its tasks.
        self._make()
        # Of each process: a fork while a thread opens the gate leaves the parent's locked. A handler of a signal that
        # comes meanwhile may close it.
        self._locks = {os.getpid(): threading.RLock()}
        self._thread: _GateThread | None = None

    @property
    def threadsafe(self) -> ThreadsafeGate:
        """`RobotGate.threadsafe` of this process's gate, which is opened if need be.

        Raises:
            StoreError: the store cannot be opened.
        """
        thread = self._thread
        if thread is None or thread.process != os.getpid():
            with self._lock():
                thread = self._thread
                if thread is None or thread.process != os.getpid():
                    thread = self._thread = _GateThread(self._make())
        return thread.gate.threadsafe

    def close(self) -> None:
        """Close this process's gate if it is open: call it when a worker ends, or its hosts wait for a lease.

        Do not leave it to `atexit`: then the thread of a store in a file has ended.

        Raises:
            StoreError: pending changes could not be saved.
        """
        with self._lock():
            thread, self._thread = self._thread, None
        if thread is not None and thread.process == os.getpid():
            thread.close()

    def _lock(self) -> threading.RLock:
        return self._locks.setdefault(os.getpid(), threading.RLock())


class _GateThread:
    """An open gate, and the thread that runs its event loop."""

    def __init__(self, gate: RobotGate) -> None:
        self.process = os.getpid()
        self.gate = gate
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="robotgate", daemon=True)
        self._thread.start()
        try:
            self._run(gate.__aenter__())
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        try:
            self._run(self.gate.aclose())
        finally:
            self._end()

    def _run(self, call: Coroutine[object, object, object]) -> None:
        asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
