"""A headless Chromium, driven by the DevTools protocol: the page is read and used as it is shown.

Debian and its kin have it as the package ``chromium``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
from tests.daemons import program
from tests.gate.servers import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.gate.servers import Web

PROGRAM: Final = program("chromium")
PATIENCE: Final = 120.0
PORT_FILE: Final = "DevToolsActivePort"
"""Chromium writes the port that it has chosen to this file, and the path of its socket."""
OPTIONS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-extensions", "--no-first-run", "--hide-scrollbars",
    "--remote-debugging-port=0",
)  # fmt: skip


def led_to(web: Web) -> str:
    """An argument for a Chromium: it finds nothing but a web of the tests, and updates of its own parts nowhere."""
    ports = f"MAP *.example:80 {LOOPBACK}:{web.port}, MAP example.*:443 {LOOPBACK}:{web.tls_port}"
    return f"--host-resolver-rules={ports}, EXCLUDE {LOOPBACK}, MAP * ~NOTFOUND"


class Tab:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, object]]] = {}
        self.told: list[str] = []
        """What the page wrote to its console, the browser's own warnings included, and dialogs that it opened."""

    async def listen(self) -> None:
        """Take what the browser sends, to the end."""
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif told["method"] == "Log.entryAdded":
                self.told.append(told["params"]["entry"]["text"])
            elif told["method"] == "Runtime.consoleAPICalled":
                self.told.append(" ".join(str(each.get("value")) for each in told["params"]["args"]))
            elif told["method"] == "Runtime.exceptionThrown":
                self.told.append(str(told["params"]["exceptionDetails"]))
            elif told["method"] == "Page.javascriptDialogOpening":
                self.told.append(f"dialog: {told['params']['message']}")

    async def send(self, method: str, **params: object) -> dict[str, object]:
        """Send a command and return its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(PATIENCE):
            told = await answer
        result = told.get("result")
        assert isinstance(result, dict), told
        return result

    async def open(self, url: str) -> None:
        """Go to a URL."""
        await self.send("Page.navigate", url=url)

    async def run(self, script: str) -> object:
        """Evaluate an expression in the page."""
        told = await self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        result = told["result"]
        assert isinstance(result, dict), told
        assert "exceptionDetails" not in told, told
        return result.get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true. One that raises is not: the old page may still be there."""
        now = f"(() => {{ try {{ return Boolean({script}); }} catch {{ return false; }} }})()"
        later = f"new Promise((done) => setTimeout(() => done({now}), 50))"
        async with asyncio.timeout(PATIENCE):
            while not await self.run(later):
                pass

    async def text(self, selector: str) -> str:
        """What an element shows."""
        return str(await self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    async def click(self, selector: str) -> None:
        """Click on an element."""
        await self.run(f"document.querySelector({json.dumps(selector)}).click()")

    async def shows(self, selector: str, text: str) -> None:
        """Wait until an element shows a text."""
        await self.until(f"document.querySelector({json.dumps(selector)}).innerText === {json.dumps(text)}")

    async def press(self, key: str) -> None:
        """Press a key."""
        codes = {"Tab": 9, "Enter": 13}
        about: dict[str, object] = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    async def resize(self, width: int, height: int, *, is_dark: bool = False) -> None:
        """Show the page in a window of so many CSS pixels."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[theme])


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Tab]:
    """A browser with one empty page, until the end of the block; its profile is in a folder."""
    assert PROGRAM is not None
    async with AsyncExitStack() as stack:
        process = await asyncio.create_subprocess_exec(
            *(PROGRAM, *OPTIONS, f"--user-data-dir={folder}", "about:blank"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

        async def end() -> None:
            if process.returncode is None:
                process.kill()
            await process.wait()

        stack.push_async_callback(end)
        async with asyncio.timeout(PATIENCE):
            # The file is there before it has its two lines.
            while len(lines := _lines(folder / PORT_FILE)) < 2:
                assert process.returncode is None, "Chromium ended"
                await asyncio.sleep(0.05)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        async with session.get(f"http://127.0.0.1:{lines[0]}/json") as response:
            pages = [each for each in await response.json() if each["type"] == "page"]
        socket = await stack.enter_async_context(
            session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
        )
        tab = Tab(socket)
        listening = asyncio.create_task(tab.listen())
        stack.callback(listening.cancel)
        for domain in ("Page", "Runtime", "Log"):
            await tab.send(f"{domain}.enable")
        yield tab


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
