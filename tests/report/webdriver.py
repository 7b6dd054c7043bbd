"""Drives a browser by W3C WebDriver, with only the standard library."""
import json
import pathlib
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"left": "\ue012", "up": "\ue013", "right": "\ue014", "down": "\ue015",
        "home": "\ue011", "end": "\ue010", "enter": "\ue007",
        "escape": "\ue00c"}
PATIENCE = 60  # seconds; sanitizers and loaded machines are slow
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update",
             "--no-first-run", "--window-size=1300,1000"]


class Browser:
    """A chromedriver process with one browser and one window; close() ends both."""

    def __init__(self, downloads, profile):
        self._downloads = pathlib.Path(downloads)
        self.driver = subprocess.Popen(
            [shutil.which("chromedriver"), "--port=0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self._start(downloads, profile)
        except Exception:
            self.driver.kill()
            raise

    def _start(self, downloads, profile):
        self.root = f"http://127.0.0.1:{self._port()}/session"
        options = {
            "binary": shutil.which("chromium"),
            "args": ARGUMENTS + [f"--user-data-dir={profile}"],
            # Without the last preference, Chromium holds back a second download
            # that begins more than five seconds after the click.
            "prefs": {"download.default_directory": downloads,
                      "download.prompt_for_download": False,
                      "profile.default_content_setting_values"
                      ".automatic_downloads": 1}}
        session = self._call("POST", "", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self.root += "/" + session["sessionId"]

    def _port(self):
        for line in self.driver.stdout:
            found = re.search(r"successfully on port (\d+)", line)
            if found:
                return found.group(1)
        raise RuntimeError("chromedriver did not start")

    def _call(self, method, path, body=None):
        request = urllib.request.Request(
            self.root + path, method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"})
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def close(self):
        try:
            self._call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def open(self, url):
        self._call("POST", "/url", {"url": url})

    def window(self):
        return self._call("GET", "/window")

    def new_window(self):
        """Opens a tab and switches to it."""
        self.to(self._call("POST", "/window/new", {"type": "tab"})["handle"])

    def to(self, window):
        self._call("POST", "/window", {"handle": window})

    def close_window(self):
        self._call("DELETE", "/window")

    def forget_cookies(self):
        self._call("DELETE", "/cookie")

    def js(self, script, *arguments):
        """Runs the body of a JavaScript function with `arguments`, and returns its value."""
        return self._call("POST", "/execute/sync",
                          {"script": script, "args": list(arguments)})

    def js_async(self, script, *arguments):
        return self._call("POST", "/execute/async",
                          {"script": script, "args": list(arguments)})

    def cdp(self, command, **parameters):
        return self._call("POST", "/goog/cdp/execute",
                          {"cmd": command, "params": parameters})

    def log(self, kind):
        return self._call("POST", "/se/log", {"type": kind})

    def find(self, css, index=0):
        found = self._call("POST", "/elements",
                           {"using": "css selector", "value": css})
        return found[index][ELEMENT]

    def click(self, css, index=0):
        self._call("POST", f"/element/{self.find(css, index)}/click", {})

    def type(self, css, *keys):
        text = "".join(KEYS.get(key, key) for key in keys)
        self._call("POST", f"/element/{self.find(css)}/value", {"text": text})

    def press(self, *keys):
        """Presses keys, which go to the element that has the focus."""
        self._actions({"type": "key", "id": "keyboard"}, [
            {"type": kind, "value": KEYS.get(key, key)}
            for key in keys for kind in ("keyDown", "keyUp")])

    def _actions(self, source, actions):
        self._call("POST", "/actions", {"actions": [
            dict(source, actions=actions)]})

    def _origin(self, css, index, x, y, duration=0):
        """Scrolls an element into view, and returns its centre."""
        self.js("document.querySelectorAll(arguments[0])[arguments[1]]"
                ".scrollIntoView({block: 'center'})", css, index)
        return {"type": "pointerMove", "duration": duration, "x": x, "y": y,
                "origin": {ELEMENT: self.find(css, index)}}

    def mouse(self, *actions):
        self._actions({"type": "pointer", "id": "mouse",
                       "parameters": {"pointerType": "mouse"}}, actions)

    def hover(self, css, index=0, x=0, y=0):
        self.mouse(self._origin(css, index, x, y))

    def double_click(self, css):
        down, up = ({"type": t, "button": 0}
                    for t in ("pointerDown", "pointerUp"))
        self.mouse(self._origin(css, 0, 0, 0), down, up, down, up)

    def drag(self, css, by):
        move = self._origin(css, 0, 0, 0)
        self.mouse(move, {"type": "pointerDown", "button": 0},
                   dict(move, x=by, duration=50),
                   {"type": "pointerUp", "button": 0})

    def wheel(self, css, delta):
        self._origin(css, 0, 0, 0)
        self._actions({"type": "wheel", "id": "wheel"}, [
            {"type": "scroll", "x": 0, "y": 0, "deltaX": 0, "deltaY": delta,
             "origin": {ELEMENT: self.find(css)}}])

    def downloaded(self, ending, patience=PATIENCE):
        """Waits for a downloaded file and returns its path; None if there is no such file.
        Chromium first creates an empty file, which it later replaces by the complete file."""
        return self.until(lambda: next((path for path in self._downloads.iterdir() if
                                        path.name.endswith(ending) and path.stat().st_size),
                                       None), patience)

    def until(self, condition, patience=PATIENCE):
        """Waits at most `patience` seconds until a function returns a true value;
        returns its last value."""
        end = time.monotonic() + patience
        while not (value := condition()) and time.monotonic() < end:
            time.sleep(0.02)
        return value
