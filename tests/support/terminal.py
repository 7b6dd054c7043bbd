"""Emulates a terminal for tests: runs a program in a pseudo-terminal of a
given size and stores the contents of its screens: cells with their styles, the
cursor, and which of the two screens is active.
"""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import unicodedata

PLAIN = (None, None, False, False)  # ink, paper, bold, faint
SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([@-~])|\x1b[78]")


def columns_of(character):
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Screen:
    """The state of a terminal, which `feed` updates with the program's
    output."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.pending = ""
        self.cursor_shown = True
        self.alternate = False
        self.style = PLAIN
        self.unknown = []
        self.scrolled = []  # rows that left the normal screen at the top
        self.saved = None
        self.clear()

    def clear(self):
        self.x = self.y = 0
        self.rows = [self.blank() for _ in range(self.height)]

    def blank(self):
        return [(" ", PLAIN)] * self.width

    def resize(self, width, height):
        self.width, self.height = width, height
        rows = [row[:width] + [(" ", PLAIN)] * (width - len(row))
                for row in self.rows[:height]]
        self.rows = rows + [self.blank() for _ in range(height - len(rows))]
        self.x, self.y = min(self.x, width - 1), min(self.y, height - 1)

    def feed(self, text):
        text = self.pending + text
        self.pending = ""
        at = 0
        while at < len(text):
            c = text[at]
            if c == "\x1b":
                match = SEQUENCE.match(text, at)
                if not match:
                    if len(text) - at < 64:
                        self.pending = text[at:]
                        return
                    self.unknown.append(text[at:at + 8])
                    at += 1
                    continue
                if match.group(2):
                    self.control(match.group(1), match.group(2))
                at = match.end()
                continue
            self.put(c)
            at += 1

    def put(self, c):
        if c == "\n":
            self.y += 1
            if self.y == self.height:
                self.scrolled.append(self.rows.pop(0))
                self.rows.append(self.blank())
                self.y -= 1
        elif c == "\r":
            self.x = 0
        elif ord(c) < 32 or 127 <= ord(c) < 160:
            self.unknown.append(c)
        elif columns_of(c) == 0:
            pass
        else:
            wide = columns_of(c)
            if self.x + wide > self.width:  # wraps
                self.x = 0
                self.put("\n")
            self.rows[self.y][self.x] = (c, self.style)
            if wide == 2:
                self.rows[self.y][self.x + 1] = ("", self.style)
            self.x += wide

    def control(self, text, final):
        if final == "m":
            self.colour([int(n or 0) for n in text.split(";")])
        elif final == "H":
            numbers = [int(n or 1) for n in text.split(";")] if text else [1, 1]
            self.y = min(numbers[0], self.height) - 1
            self.x = min(numbers[1] if len(numbers) > 1 else 1, self.width) - 1
        elif final == "K" and text in ("", "0"):
            self.rows[self.y][self.x:] = [(" ", PLAIN)] * (self.width - self.x)
        elif final == "J" and text == "2":
            self.rows = [self.blank() for _ in range(self.height)]
        elif final == "J" and text in ("", "0"):
            self.rows[self.y][self.x:] = [(" ", PLAIN)] * (self.width - self.x)
            for y in range(self.y + 1, self.height):
                self.rows[y] = self.blank()
        elif text == "?25":
            self.cursor_shown = final == "h"
        elif text == "?1049":
            if final == "h" and not self.alternate:
                self.saved = (self.rows, self.x, self.y)
                self.clear()
            elif final == "l" and self.alternate:
                self.rows, self.x, self.y = self.saved
                self.resize(self.width, self.height)
            self.alternate = final == "h"
        else:
            self.unknown.append("CSI " + text + final)

    def colour(self, numbers):
        ink, paper, bold, faint = self.style
        while numbers:
            n = numbers.pop(0)
            if n == 0:
                ink, paper, bold, faint = PLAIN
            elif n == 1:
                bold = True
            elif n == 2:
                faint = True
            elif n in (38, 48):
                if numbers.pop(0) == 2:
                    colour, numbers = tuple(numbers[:3]), numbers[3:]
                else:
                    colour = numbers.pop(0)
                ink, paper = (colour, paper) if n == 38 else (ink, colour)
            elif 30 <= n <= 37:
                ink = n - 30
            else:
                self.unknown.append("SGR %d" % n)
        self.style = (ink, paper, bold, faint)

    def lines(self):
        return ["".join(c for c, _ in row).rstrip() for row in self.rows]

    def text(self):
        return "\n".join(self.lines()).rstrip()


class Program:
    """A program in a separate pseudo-terminal."""

    def __init__(self, command, width=80, height=24, env=None, shell=None):
        self.screen = Screen(width, height)
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.sent = ""
        self.status = None
        wait, go = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.read(wait, 1)  # until its terminal is set up
                # Tests that run in the background inherit ignored signals.
                for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                os.execvpe(command[0], command, env or dict(os.environ))
            finally:
                os._exit(127)
        self.resize(width, height, notify=False)
        self.before = termios.tcgetattr(self.fd)
        os.write(go, b".")
        os.close(wait)
        os.close(go)

    def resize(self, width, height, notify=True):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", height, width, 0, 0))
        self.screen.resize(width, height)

    def send(self, keys):
        os.write(self.fd, keys.encode())

    def signal(self, number):
        os.kill(self.pid, number)

    def read(self, seconds):
        """Waits at most `seconds` for output, and reads it. Returns False at the end of
        the output."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        if not data:
            return False
        text = self.decode(data)
        self.sent += text
        self.screen.feed(text)
        return True

    def until(self, condition, seconds=60):
        """Reads output until condition() is true. Returns False if the condition is
        still false at the end of the output or after `seconds`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            if not self.read(0.02):
                return condition()
        return False

    def shows(self, words, seconds=60):
        return self.until(lambda: words in self.screen.text(), seconds)

    def state(self):
        """Returns the state of the process as ps reports it: R, S, T, ..."""
        with open("/proc/%d/stat" % self.pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]

    def end(self, seconds=60):
        """Waits for the program's end; returns the exit code, or minus the
        signal's number. Output may arrive after the program has ended, so this
        reads until the terminal reports the end.
        """
        end = time.monotonic() + seconds
        more = True
        while time.monotonic() < end and (more or self.status is None):
            if more:
                more = self.read(0.02)
            else:
                time.sleep(0.01)
            if self.status is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def remains(self):
        """Returns a list of the terminal's properties that the program did not
        restore (cursor, screen, colours, line discipline), and of escape
        sequences that this emulation does not know.
        """
        now = termios.tcgetattr(self.fd)
        return [name for name, bad in (
            ("cursor hidden", not self.screen.cursor_shown),
            ("alternate screen", self.screen.alternate),
            ("style %s" % (self.screen.style,), self.screen.style != PLAIN),
            ("modes %s" % (now[:4],), now[:4] != self.before[:4]),
            ("keys %s" % (now[6],), now[6] != self.before[6]),
            ("unknown %s" % self.screen.unknown, self.screen.unknown)) if bad]

    def restored(self):
        return not self.remains()

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except OSError:
                pass
        os.close(self.fd)
