"""redis-py's Lock, told what to do by the Go tests.

usage: peer.py <redis URL>

A JSON command per line comes in, a JSON answer per line goes out; package
internal/e2e/interop/peer describes both. The answer with id 0 says that the
program is ready, the end of the input ends it. Each logical thread is a thread,
with one Lock object for each name, as the library wants it.

The operations, which peer.mjs and the Go peers have too; unless said otherwise
they answer true, or with what was thrown:

    lock     waits up to Wait ms for Name; true or false. Lease is the timeout,
             0 for none. Value, if any, is the token: one byte for each character.
    tryLock  the same without waiting
    unlock   releases what this thread's lock believes to hold
    stranger releases Name with a token that nobody has
    extend   makes the lease Lease ms from now on
    isHeld   true or false: what the library says
    rounds   N times: lock with Lease, read the number at Value, write one more,
             unlock, think; answers how often. The last one who wrote is at Value:last.
"""

import json
import queue
import random
import sys
import threading
import time

import redis
from redis.lock import Lock

PAUSE = 0.005  # between attempts, in seconds
THINK = 0.003  # between rounds, at most

client = redis.Redis.from_url(sys.argv[1])
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

    def lock(self, name, timeout=None):
        lock = self.locks.setdefault(name, Lock(client, name, sleep=PAUSE))
        if timeout is not None:
            lock.timeout = timeout / 1000 if timeout else None
        return lock

    def acquire(self, command, **how):
        token = command.get("value")
        if token:
            how["token"] = token.encode("latin-1")
        return self.lock(command["name"], command.get("lease", 0)).acquire(**how)

    def do_lock(self, command):
        return self.acquire(command, blocking_timeout=command.get("wait", 0) / 1000)

    def do_tryLock(self, command):
        return self.acquire(command, blocking=False)

    def do_unlock(self, command):
        self.lock(command["name"]).release()
        return True

    def do_stranger(self, command):
        stranger = Lock(client, command["name"])
        stranger.local.token = b"stranger"
        stranger.release()
        return True

    def do_extend(self, command):
        return self.lock(command["name"]).extend(command["lease"] / 1000, replace_ttl=True)

    def do_isHeld(self, command):
        return self.lock(command["name"]).owned()

    def do_rounds(self, command):
        lock, counter = self.lock(command["name"], command["lease"]), command["value"]
        for _ in range(command["n"]):
            lock.acquire()
            seen = int(client.get(counter) or 0)
            client.set(counter, seen + 1)
            client.set(counter + ":last", "peer")
            lock.release()
            time.sleep(random.random() * THINK)
        return command["n"]


def main():
    client.ping()
    threads = {}
    answer(0)
    for line in sys.stdin:
        command = json.loads(line)
        name = command.get("thread", "main")
        if name not in threads:
            threads[name] = Thread()
        threads[name].commands.put(command)


main()
