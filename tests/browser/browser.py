"""Headless Chromium, driven by its DevTools protocol over a pipe. Needs nothing but Python and Chromium."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """A page in a browser. `errors` has what scripts threw and what the browser complained about."""

    def __init__(self, program, width=1280, height=900):
        self.errors, self.events, self.last_id, self.session, self.received = [], [], 0, None, b""
        self.profile = tempfile.TemporaryDirectory(prefix="tessera_browser", ignore_cleanup_errors=True)
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        inner_in, self.commands = os.pipe()
        self.answers, inner_out = os.pipe()
        inner = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (inner_in, inner_out)]
        options = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                   "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking",
                   "--force-color-profile=srgb", f"--user-data-dir={self.profile.name}"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        self.process = subprocess.Popen(
            [program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(3, 4),
            preexec_fn=lambda: (os.dup2(inner[0], 3), os.dup2(inner[1], 4)))
        for descriptor in (inner_in, inner_out, *inner):
            os.close(descriptor)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.profile.cleanup()

    def _next_message(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.received:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                return None
            piece = os.read(self.answers, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.received += piece
        message, self.received = self.received.split(b"\0", 1)
        message = json.loads(message)
        if message.get("method") == "Runtime.exceptionThrown":
            details = message["params"]["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.errors.append(message["params"]["entry"]["text"])
        return message

    def call(self, method, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next_message(60)
            if answer is None:
                raise RuntimeError(f"{method}: no answer within a minute")
            if answer.get("id") != self.last_id:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def wait_for(self, event, seconds=60):
        while True:
            message = self.events.pop(0) if self.events else self._next_message(seconds)
            if message is None:
                raise RuntimeError(f"no {event} within {seconds} s")
            if message.get("method") == event:
                return message["params"]

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url="about:blank")
        self.wait_for("Page.loadEventFired")
        self.call("Page.navigate", url=path if "://" in path else f"file://{os.path.abspath(path)}")
        self.wait_for("Page.loadEventFired")

    def reload(self):
        self.events.clear()
        self.call("Page.reload")
        self.wait_for("Page.loadEventFired")

    def resize(self, width, height, scale=1, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=mobile)

    def set_dark(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def evaluate(self, expression):
        """The value of a JavaScript expression, after the page has been drawn."""
        wrapped = f"new Promise((done) => requestAnimationFrame(() => setTimeout(done))).then(() => ({expression}))"
        result = self.call("Runtime.evaluate", expression=wrapped, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector):
        x, y = self.evaluate(f"((box) => [box.x + box.width / 2, box.y + box.height / 2])"
                             f"((element => (element.scrollIntoView({{block: 'center'}}), element))"
                             f"(document.querySelector({json.dumps(selector)})).getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, **({"text": name} if len(name) == 1 else {}))

    def screenshot(self, path, whole=False):
        clip = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {**size, "x": 0, "y": 0, "scale": 1}, "captureBeyondViewport": True}
        data = self.call("Page.captureScreenshot", format="png", **clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
