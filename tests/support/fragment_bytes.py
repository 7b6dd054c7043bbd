#!/usr/bin/env python3
"""usage: fragment_bytes.py age FILE SECONDS
       fragment_bytes.py spoil FILE ATTEMPT

Changes the bytes of a fragment (store/esf.h), for tests. `age` makes its frames
SECONDS older, with correct checksums, so that readers do not assume that another host
is still writing the fragment. `spoil` sets 4 bytes of the payload to 0xff in every
frame that belongs to attempt number ATTEMPT and begins with a sample or an event.
"""

import struct
import sys

HEADER, HEAD = 64, 56
SAMPLE, EVENT = 4, 5
TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(crc, data):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def frames(data):
    """Yields (offset, payload size in bytes) of each complete frame."""
    place = HEADER
    while place + HEAD <= len(data):
        mark, n = struct.unpack_from("<II", data, place)
        if mark != 0x45534652 or place + HEAD + n > len(data):
            break
        yield place, n
        place += HEAD + n


def age(data, seconds):
    seed = crc32c(0, data[16:52])
    for place, _ in frames(data):
        (then,) = struct.unpack_from("<q", data, place + 16)
        struct.pack_into("<q", data, place + 16, then - 1000 * seconds)
        struct.pack_into("<I", data, place + 52, crc32c(seed, data[place : place + 52]))


def spoil(data, attempt):
    for place, size in frames(data):
        of_frame = struct.unpack_from("<I", data, place + 24)[0]
        kind = struct.unpack_from("<I", data, place + HEAD)[0] if size else 0
        if of_frame == attempt and kind in (SAMPLE, EVENT):
            data[place + HEAD + 20 : place + HEAD + 24] = b"\xff" * 4


def main():
    verb, path, number = sys.argv[1:]
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        {"age": age, "spoil": spoil}[verb](data, int(number))
        file.seek(0)
        file.write(data)


main()
