"""A service of the tests that keeps URLFrontier's rules, as they were measured, and reads its messages by protobuf."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import grpc
import grpc.aio
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from multiprocessing.connection import Connection

Fields: TypeAlias = dict[str, object]
"""A message, as protobuf has it in JSON."""
TYPES: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
}
MESSAGES: Final = {
    "Empty": {},
    "StringList": {"values": (1, "strings")},
    "Entry": {"key": (1, "string"), "value": (2, "StringList")},
    "URLInfo": {
        "url": (1, "string"),
        "key": (2, "string"),
        "metadata": (3, "Entrys"),
        "crawlID": (4, "string"),
    },
    "GetParams": {
        "max_urls_per_queue": (1, "uint32"),
        "max_queues": (2, "uint32"),
        "key": (3, "string"),
        "delay_requestable": (4, "uint32"),
        "crawlID": (6, "string"),
    },
    "DiscoveredURLItem": {"info": (1, "URLInfo")},
    "KnownURLItem": {"info": (1, "URLInfo"), "refetchable_from_date": (2, "uint64")},
    "URLItem": {"discovered": (1, "DiscoveredURLItem"), "known": (2, "KnownURLItem"), "ID": (3, "string")},
    "AckMessage": {"ID": (1, "string"), "status": (2, "uint32")},
    "QueueDelayParams": {"key": (1, "string"), "delay_requestable": (2, "uint32"), "crawlID": (3, "string")},
    "BlockQueueParams": {"key": (1, "string"), "time": (2, "uint64"), "crawlID": (3, "string")},
}
"""Fields with their numbers and types, which end with an s if they are repeated. A map is a list of entries."""


def _pool() -> DescriptorPool:
    file = FileDescriptorProto(name="urlfrontier.proto", package="urlfrontier", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for label, (number, kind) in fields.items():
            one = kind.removesuffix("s")
            message.field.add(
                name=label,
                number=number,
                label=FieldDescriptorProto.LABEL_OPTIONAL
                if one == kind
                else FieldDescriptorProto.LABEL_REPEATED,
                type=TYPES.get(one, FieldDescriptorProto.TYPE_MESSAGE),
                type_name=None if one in TYPES else f".urlfrontier.{one}",
            )
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL: Final = _pool()


@dataclass
class Known:
    """A URL of a queue."""

    info: Fields
    due: int
    """From when on it may be handed out; 0: it is done."""
    held_until: int = 0
    handed_at: list[float] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    """The dates that it was acknowledged with."""


class Service:
    """It knows URLs by key, and tells what it was told."""

    def __init__(self) -> None:
        self.queues: dict[str, dict[str, Known]] = defaultdict(dict)
        self.delays: dict[str, int] = {}
        self.blocks: dict[str, int] = {}
        self.told: list[tuple[str, str]] = []
        """Each SetDelay and BlockQueueUntil, with its key."""
        self.answers: list[list[Fields | bytes | Exception]] = []
        """What is sent in place of URLs that are due, first to last: messages, and at the end perhaps an error."""
        self.fails_on = ""
        """A URL that it fails to take."""
        self._handed: dict[str, int] = {}
        self._server: grpc.aio.Server | None = None
        self.target = "127.0.0.1:0"

    async def start(self, *, knows_calls: bool = True) -> None:
        """Listen, at the same port as before."""
        handlers = {
            "GetURLs": grpc.unary_stream_rpc_method_handler(
                self._get, _reader("GetParams"), _writer("URLInfo")
            ),
            "PutURLs": grpc.stream_stream_rpc_method_handler(
                self._put, _reader("URLItem"), _writer("AckMessage")
            ),
            "SetDelay": grpc.unary_unary_rpc_method_handler(
                self._set_delay, _reader("QueueDelayParams"), _writer("Empty")
            ),
            "BlockQueueUntil": grpc.unary_unary_rpc_method_handler(
                self._block, _reader("BlockQueueParams"), _writer("Empty")
            ),
        }
        self._server = grpc.aio.server()
        if knows_calls:
            generic = grpc.method_handlers_generic_handler("urlfrontier.URLFrontier", handlers)
            self._server.add_generic_rpc_handlers([generic])
        self.target = f"127.0.0.1:{self._server.add_insecure_port(self.target)}"
        await self._server.start()

    async def stop(self) -> None:
        """Be gone, and forget what is not written down."""
        if self._server is not None:
            await self._server.stop(None)
        for queue in self.queues.values():
            for known in queue.values():
                known.held_until = 0
        for forgotten in (self.delays, self.blocks, self._handed):
            forgotten.clear()

    def add(self, key: str, *urls: str, metadata: dict[str, list[str]] | None = None) -> None:
        """Know URLs, which are due."""
        entries = [{"key": name, "value": {"values": texts}} for name, texts in (metadata or {}).items()]
        for url in urls:
            self.queues[key].setdefault(url, Known({"url": url, "key": key, "metadata": entries}, due=1))

    def is_done(self) -> bool:
        """Whether no URL is due within a minute: for longer than leases are renewed here."""
        return all(
            known.due == 0 or known.due > time.time() + 60
            for queue in self.queues.values()
            for known in queue.values()
        )

    @property
    def acknowledged(self) -> dict[str, list[int]]:
        """By URL, the dates, without those of leases that were renewed."""
        return {url: known.acknowledged for queue in self.queues.values() for url, known in queue.items()}

    async def _get(self, request: Fields, context: object) -> AsyncIterator[Fields | bytes]:
        del context
        if self.answers:
            for answer in self.answers.pop(0):
                if isinstance(answer, Exception):
                    raise answer
                yield answer
            return
        now, most = int(time.time()), _int(request, "max_urls_per_queue")
        queues_left = _int(request, "max_queues")
        for key in list(self.queues):
            if not queues_left:
                break
            # The next call looks at it last.
            queue = self.queues[key] = self.queues.pop(key)
            due = [known for known in queue.values() if 0 < known.due <= now and known.held_until <= now]
            in_process = sum(known.held_until > now for known in queue.values())
            too_early = self._handed.get(key, 0) + self.delays.get(key, 1) >= now
            if not due or in_process >= most or too_early or self.blocks.get(key, -1) >= now:
                continue
            self._handed[key], queues_left = now, queues_left - 1
            for known in due[:most]:
                known.held_until = now + _int(request, "delay_requestable")
                known.handed_at.append(time.time())
                yield known.info

    async def _put(self, items: AsyncIterator[Fields], context: object) -> AsyncIterator[Fields]:
        del context
        async for item in items:
            given = item.get("known", item.get("discovered"))
            assert isinstance(given, dict)
            info = given["info"]
            queue = self.queues[info.get("key", "")]
            is_new = info.get("url", "") not in queue
            known = queue.setdefault(info.get("url", ""), Known(info, due=int(time.time())))
            if "known" in item:
                known.info, known.due, known.held_until = info, _int(given, "refetchable_from_date"), 0
                known.acknowledged.append(known.due)
            is_done = info.get("url") != self.fails_on
            yield {"ID": item["ID"], "status": (0 if is_new or "known" in item else 1) if is_done else 2}

    async def _set_delay(self, request: Fields, context: object) -> Fields:
        del context
        self.delays[str(request["key"])] = _int(request, "delay_requestable")
        self.told.append(("SetDelay", str(request["key"])))
        return {}

    async def _block(self, request: Fields, context: object) -> Fields:
        del context
        self.blocks[str(request["key"])] = _int(request, "time")
        self.told.append(("BlockQueueUntil", str(request["key"])))
        return {}


def _int(message: Fields, name: str) -> int:
    # JSON has numbers of 64 bits as texts.
    return int(str(message.get(name, 0)))


def _reader(name: str) -> Callable[[bytes], Fields]:
    kind = GetMessageClass(POOL.FindMessageTypeByName(f"urlfrontier.{name}"))
    return lambda message: MessageToDict(kind.FromString(message), preserving_proto_field_name=True)


def _writer(name: str) -> Callable[[Fields | bytes], bytes]:
    kind = GetMessageClass(POOL.FindMessageTypeByName(f"urlfrontier.{name}"))
    return lambda given: given if isinstance(given, bytes) else ParseDict(given, kind()).SerializeToString()


def serve(pipe: Connection) -> None:
    """Be a process of its own, which tells its address."""

    async def listen() -> None:
        service = Service()
        await service.start()
        pipe.send(service.target)
        await asyncio.Event().wait()

    asyncio.run(listen())
