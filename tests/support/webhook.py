"""Runs a server for tests of webhooks: webhook.py FOLDER [CERTIFICATE].

Writes its port (from the environment variable PORT, or any free port) to
FOLDER/port. The first word of FOLDER/answers determines the answer to a post
and is then removed; without a word the answer is 200. A word is a status code;
`reset`, `stall`, `close` or `garbage` for the corresponding failure; `old` for an
answer in HTTP/0.9; or `began` for an answer of which only the beginning is sent.
Each accepted post (2xx) is appended to FOLDER/posts as a line with the id and the body. With a
certificate and its key in one file, the server uses TLS.
"""
import http.server
import os
import socket
import ssl
import struct
import sys

folder = sys.argv[1]


def next_answer():
    path = folder + "/answers"
    words = open(path).read().split() if os.path.exists(path) else []
    if words:
        with open(path, "w") as file:
            file.write(" ".join(words[1:]))
    return words[0] if words else "200"


NO_HTTP = {"close": b"", "garbage": b"\x16\x03\x01\0SSH-2.0-x\r\n\r\n", "old": b"<p>moved</p>\n",
           "began": b"HTTP/1.1 100 Continue\r\n\r\n"}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        answer = next_answer()
        if answer == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()
            return
        if answer in NO_HTTP:
            self.wfile.write(NO_HTTP[answer])
            self.close_connection = True
            return
        if answer == "stall":
            self.connection.recv(1)  # until the client gives up
            self.close_connection = True
            return
        self.send_response(int(answer))
        if answer[0] == "3":
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()
        if answer[0] == "2":
            with open(folder + "/posts", "a") as file:
                file.write(self.headers["X-Entropy-Scan-Id"] + " " + body + "\n")

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", int(os.environ.get("PORT", 0))), Handler)
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *of: None  # a client that rejects the certificate
with open(folder + "/port.new", "w") as file:
    file.write(str(server.server_port))
os.rename(folder + "/port.new", folder + "/port")
server.serve_forever()
