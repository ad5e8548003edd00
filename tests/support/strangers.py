"""Connections that do not speak the protocol: silent ones, nonsense, a message of endlessly many frames.

usage: strangers.py SOCKET silent COUNT SECONDS   opens COUNT; half say nothing, half send random bytes; prints how many are closed
       strangers.py SOCKET frames MEGABYTES       one ZMTP peer (NULL) that sends frames with "more follows" until it is cut off
"""
import random
import select
import socket
import sys
import time


def connect(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(5)
    s.connect(path)
    return s


def silent(path, count, seconds):
    rng = random.Random(1)
    peers = []
    for i in range(count):
        try:
            s = connect(path)
            if i % 2:
                s.send(bytes(rng.randrange(256) for _ in range(100)))
            peers.append(s)
        except OSError:
            pass
    opened, closed, end = len(peers), 0, time.monotonic() + seconds
    while peers and time.monotonic() < end:
        for s in select.select(peers, [], [], 0.2)[0]:
            try:
                data = s.recv(4096)
            except OSError:
                data = b""
            if not data:
                peers.remove(s)
                s.close()
                closed += 1
    print(opened, closed)


def frames(path, megabytes):
    s = connect(path)
    s.send(b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    s.recv(64)
    ready = b"\x05READY" + b"\x0bSocket-Type" + (6).to_bytes(4, "big") + b"DEALER" + b"\x08Identity" + bytes(4)
    s.send(b"\x04" + bytes([len(ready)]) + ready)
    frame = b"\x03" + (1 << 15).to_bytes(8, "big") + bytes(1 << 15)  # long, more follows
    sent = 0
    s.settimeout(10)
    try:
        while sent < megabytes << 20:
            sent += s.send(frame)
        print("all", sent >> 20)
    except (OSError, socket.timeout) as why:
        print("cut", sent >> 20, type(why).__name__)


if sys.argv[2] == "silent":
    silent(sys.argv[1], int(sys.argv[3]), float(sys.argv[4]))
else:
    frames(sys.argv[1], int(sys.argv[3]))
