#!/usr/bin/env python3
"""A service manager's notify socket: notify_listen.py SOCKET FILE appends every datagram as one line (line feeds as |)."""
import socket
import sys

listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
with open(sys.argv[2], "a", encoding="utf-8", buffering=1) as log:
    log.write("listening\n")
    while True:
        log.write(listener.recv(4096).decode("utf-8", "replace").replace("\n", "|") + "\n")
