"""kazoo's Lock, told what to do by the Go tests.

usage: peer.py <servers> <timeout of the session in ms>

A JSON command per line comes in, a JSON answer per line goes out; package
internal/e2e/interop/peer describes both. The answer with id 0 says that the
program is ready, the end of the input ends it. Each logical thread is a thread,
with one Lock object for each name.

The operations, which the Curator peer has too:

    lock     waits up to Wait ms for the lock at the path Name; true or false
    unlock   releases it
    rounds   N times: lock, read the number in the node Value, write one more, unlock
"""

import json
import os
import queue
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

client = KazooClient(hosts=sys.argv[1], timeout=int(sys.argv[2]) / 1000)
client.start()
output = threading.Lock()


def answer(command_id, **fields):
    line = json.dumps({"id": command_id, "at": time.monotonic_ns(), **fields})
    with output:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class Thread(threading.Thread):
    """A logical thread: carries out its commands one after another."""

    def __init__(self):
        super().__init__(daemon=True)
        self.commands = queue.SimpleQueue()
        self.locks = {}
        self.start()

    def run(self):
        while True:
            command = self.commands.get()
            try:
                value = getattr(self, "do_" + command["op"])(command)
            except Exception as error:  # whatever it is, Go wants to know
                answer(command["id"], error=str(error), **{"class": type(error).__name__})
            else:
                answer(command["id"], value=value)

    def lock(self, name):
        if name not in self.locks:
            # Without the pattern kazoo does not see the nodes of other programs.
            self.locks[name] = client.Lock(name, "kazoo", extra_lock_patterns=["lock-"])
        return self.locks[name]

    def do_lock(self, command):
        try:
            return self.lock(command["name"]).acquire(timeout=max(command.get("wait", 0), 1) / 1000)
        except LockTimeout:
            return False

    def do_unlock(self, command):
        return self.lock(command["name"]).release()

    def do_rounds(self, command):
        for _ in range(command["n"]):
            with self.lock(command["name"]):
                client.sync(command["value"])
                n = int(client.get(command["value"])[0])
                client.set(command["value"], str(n + 1).encode())
        return True


threads = {}
answer(0)
for line in sys.stdin:
    command = json.loads(line)
    name = command.get("thread", "main")
    if name not in threads:
        threads[name] = Thread()
    threads[name].commands.put(command)
os._exit(0)  # what is held stays held, as after a crash
