"""Starts entropy-scan serve and sends requests to it, for the tests."""
import http.client
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time
import urllib.parse

SCAN = os.path.join(os.environ["BUILD"], "entropy-scan")
PATIENCE = 60  # seconds, for a busy machine


def check(name, good, why=""):
    print(("ok - " if good else "not ok - ") + name, flush=True)
    if not good:
        print(str(why)[:2000], flush=True)


def until(condition):
    """Waits until condition() is true; returns its last value."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    return condition()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {dict(self.headers)} {self.body[:300]!r}"


class Server:
    """A running server. `token` is the token that requests must contain."""

    def __init__(self, *arguments, port=0):
        self.process = subprocess.Popen(
            [SCAN, "serve", "--port", str(port), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = self.process.stdout.readline().strip()
        url = urllib.parse.urlparse(self.address)
        self.host, self.port, self.path = url.hostname, url.port, url.path
        self.token = urllib.parse.parse_qs(url.query).get("token", [""])[0]

    def ask(self, path, method="GET", headers=None, token=True, body=None):
        """Sends a request, by default with the token. `path` is relative to the page's address."""
        headers = dict(headers or {})
        if token:
            headers.setdefault("Authorization", "Bearer " + self.token)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        connection.request(method, self.path + path, body=body, headers=headers)
        answer = connection.getresponse()
        result = Answer(answer.status, answer.headers, answer.read())
        connection.close()
        return result

    def raw(self, data, wait=True):
        """Sends the bytes as they are. If `wait` is true, returns all bytes received until the
        server closes the connection, otherwise the open connection."""
        peer = self.connect()
        peer.sendall(data)
        got = b""
        while wait:
            part = peer.recv(65536)
            got += part
            if not part:
                peer.close()
                return got
        return peer

    def connect(self):
        return socket.create_connection((self.host, self.port), timeout=PATIENCE)

    def listed(self, since=None):
        query = "?" + urllib.parse.urlencode({"since": since}) if since else ""
        return self.ask("api/runs" + query).json()

    def ready(self, n):
        """Waits until n runs are listed and the search is complete; returns them by
        the name of their file."""
        def complete():
            listed = self.listed()
            return not listed.get("reading", True) and listed["n"] == n and listed
        listed = until(complete) or self.listed()
        return {os.path.basename(run["path"]): run for run in listed["runs"]}

    def end(self, number=signal.SIGTERM):
        """Ends the server; returns its exit code and its messages."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


class Events:
    """Reads server-sent events."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection(server.host, server.port)
        self.connection.request(
            "GET", server.path + "api/events",
            headers={"Authorization": "Bearer " + server.token})
        self.answer = self.connection.getresponse()

    def next(self):
        """Returns the next event as (name, id, data)."""
        event = {}
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if line.startswith(":"):
                continue
            if not line and "data" in event:
                return event["event"], event["id"], json.loads(event["data"])
            name, _, value = line.partition(": ")
            if name:
                event[name] = value

    def find(self, wanted):
        """Returns the first event that wanted(name, data) accepts."""
        while True:
            name, version, data = self.next()
            if wanted(name, data):
                return data

    def close(self):
        self.connection.close()
        self.answer.close()


def blocks(data):
    """Parses blocks of numbers (cli/serve/README.md) into pairs of a header and
    (steps, values, curve steps, curve values)."""
    at, found = 0, []

    def take(n, letter, size):
        nonlocal at
        values = struct.unpack_from(f"<{n}{letter}", data, at)
        at += n * size
        return values

    while at < len(data):
        (n,) = take(1, "I", 4)
        header = json.loads(data[at : at + n])
        assert (4 + n) % 8 == 0
        at += n
        n, c = header["n"], header["c"]
        parts = [take(n, "q", 8), take(n * header["rows"] * header["columns"], "I", 4)]
        at = (at + 7) // 8 * 8
        parts += [take(c, "q", 8), take(c * header["rows"], "I", 4)]
        at = (at + 7) // 8 * 8
        found.append((header, parts))
    return found


def floats(bits):
    return [struct.unpack("<f", struct.pack("<I", x))[0] for x in bits]


def is_closed(peer, seconds):
    """Returns true if the server closes the connection in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([peer], [], [], max(0, end - time.monotonic()))[0]:
            try:
                if not peer.recv(65536):
                    return True
            except ConnectionError:
                return True
    return False
