#!/usr/bin/env python3
"""Simulates a network that fails repeatedly: forwards a port to 127.0.0.1:PORT, and resets each connection after a random number of bytes below BYTES has been sent to the server.

    cutting.py PORT BYTES SEED    prints its own port, and runs until it is killed
"""
import random
import selectors
import socket
import struct
import sys
import threading

port, most, chance = int(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3])


def cut(*ends):
    for end in ends:  # a reset, which loses the data in transit
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()


def forward(client, left):
    server = socket.create_connection(("127.0.0.1", port))
    with selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ, server)
        ready.register(server, selectors.EVENT_READ, client)
        while left > 0:
            for key, _ in ready.select():
                try:
                    data = key.fileobj.recv(4096)
                    key.data.sendall(data)
                except OSError:
                    data = b""
                if not data:
                    left = 0
                elif key.fileobj is client:
                    left -= len(data)
    cut(client, server)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    end, _ = listener.accept()
    threading.Thread(target=forward, args=(end, chance.randrange(most)), daemon=True).start()
