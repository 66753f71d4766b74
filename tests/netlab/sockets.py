"""Talk without MPI, on the hosts of an emulated network: ``python sockets.py echo | ping | sink | pour | ...``.

What is measured is printed as JSON.
"""

import json
import socket
import subprocess
import sys
import time

PORT = 7777


def listen():
    server = socket.create_server(("0.0.0.0", PORT))
    server.settimeout(60)
    print("listening", flush=True)
    connection, _ = server.accept()
    connection.settimeout(60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def call(address):
    connection = socket.create_connection((address, PORT), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def echo():
    with listen() as connection:
        while data := connection.recv(64):
            connection.sendall(data)


def ping(address, times):
    """Return the least seconds of a round trip."""
    least = float("inf")
    with call(address) as connection:
        for _ in range(int(times)):
            began = time.perf_counter()
            connection.sendall(b"?")
            connection.recv(1)
            least = min(least, time.perf_counter() - began)
    return least


def sink():
    """Return bytes a second from the first that came to the last."""
    with listen() as connection:
        total, began = len(connection.recv(1)), time.perf_counter()
        while data := connection.recv(1 << 20):
            total += len(data)
            ended = time.perf_counter()
    return total / (ended - began)


def pour(address, nbytes):
    with call(address) as connection:
        connection.sendall(bytes(int(nbytes)))


def datagrams(address, number, size):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(int(number)):
            sender.sendto(bytes(int(size)), (address, PORT))


def hold():
    """Make a lab of two hosts with a process on one, name them, and sleep."""
    import os

    from support.netlab import Lab

    with Lab(2) as lab:
        inside = subprocess.Popen(lab.command(1, ["sleep", "600"]), env={**os.environ, **lab.environment()})
        print(lab.name, lab.pid, inside.pid, flush=True)
        time.sleep(600)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
