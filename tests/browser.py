"""A browser for the tests of pages."""

import base64
import contextlib
import json
import os
import select
import subprocess
import time
from importlib.resources import files

AUDIT = """
    axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => {
        const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
        window.faults = serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ")}`);
    });
    0;
"""


class Browser:
    """Headless Chromium, spoken to over two pipes."""

    def __init__(self, path, folder):
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            f"--user-data-dir={folder}",
            "--remote-debugging-pipe",
        ]
        shell = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, path, *flags],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._number, self._session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": params, **session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self):
        while b"\0" not in self._rest:
            assert select.select([self._in], [], [], 60)[0], "no answer"
            self._rest += os.read(self._in, 1 << 20)
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def open(self, address, width=1280, height=900, scheme="light"):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=address if isinstance(address, str) else address.as_uri())
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait(self, condition):
        """Wait until an expression is true on the page."""
        for _ in range(400):
            if self.run(f"Boolean({condition})"):
                return
            time.sleep(0.05)
        raise AssertionError(f"not true within 20 seconds: {condition}")

    def run(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                text="\r" if key == "Enter" and kind == "keyDown" else "",
            )

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def complaints(self):
        kinds = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [event for event in self.events if event.get("method") in kinds]

    def requests(self):
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [request["request"]["url"] for request in sent]

    def faults(self):
        """What axe-core calls serious or critical on the page that is shown."""
        self.run(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
        self.run(f"window.faults = null; {AUDIT}")
        self.wait("window.faults")
        return self.run("window.faults")

    def screenshot(self):
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])

    def close(self):
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        os.close(self._in)
        os.close(self._out)
