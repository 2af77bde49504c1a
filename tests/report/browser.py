"""A headless Chromium, spoken to through a pipe: what a page requests, logs, and computes its styles to."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class Browser:
    """One page of one browser; a context manager that leaves no process behind."""

    def __init__(self, profile):
        self.events = []
        self._number = 0
        self._rest = b""
        self._profile = profile

    def __enter__(self):
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        redirect = f'exec "$@" 3<&{commands} 4>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, "bash", CHROMIUM, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        self._session = None
        pages = [info for info in self("Target.getTargets")["targetInfos"] if info["type"] == "page"]
        target = pages[0]["targetId"] if pages else self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        os.close(self._commands)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._answers)

    def __call__(self, method, **params):
        """Sends one command and waits for its answer; events that come in between are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self):
        while b"\0" not in self._rest:
            chunk = os.read(self._answers, 1 << 16)
            assert chunk, "the browser went away"
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, url, *, scheme="light", media="", width=1200):
        """Loads a page in a colour scheme, for a medium, at a width, and waits until it is complete."""
        self("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.events.clear()
        self("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def evaluate(self, expression):
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def pdf(self):
        return base64.b64decode(self("Page.printToPDF", printBackground=True)["data"])

    def requests(self):
        return [event["params"]["request"]["url"] for event in self._of("Network.requestWillBeSent")]

    def complaints(self):
        """Exceptions, console messages and log entries."""
        return self._of("Runtime.exceptionThrown") + self._of("Runtime.consoleAPICalled") + self._of("Log.entryAdded")

    def _of(self, method):
        return [event for event in self.events if event.get("method") == method]
