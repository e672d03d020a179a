// node-redlock, told what to do by the Go tests.
//
// usage: node peer.mjs <redis URL> <4 or 5>
//
// NODE_MODULES names the folder where the packages of package.json are
// installed. A JSON command per line comes in, a JSON answer per line goes out;
// package internal/e2e/interop/peer describes both, and peer.py the operations.
// node-redlock has no isHeld, chooses its values itself, needs a Lease, and locks
// Names, all or none, in place of Name.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const pause = 5; // between attempts, ms
const think = 3; // between rounds, at most, ms

const require = createRequire(pathToFileURL(process.env.NODE_MODULES + "/"));
const Redis = require("ioredis");
const client = new Redis(process.argv[2]);

// Version 4 takes how often to try again from its constructor: 0 as an option of
// a call means the default.
function version4() {
  const Redlock = require("redlock4");
  const library = (wait) =>
    new Redlock([client], { retryCount: Math.ceil(wait / pause), retryDelay: pause, retryJitter: pause / 4 });
  const once = library(0);
  return {
    busy: Redlock.LockError,
    acquire: (names, lease, wait) => library(wait).lock(names, lease),
    release: (lock) => once.unlock(lock),
    extend: (lock, lease) => once.extend(lock, lease),
    stranger: (name) => new Redlock.Lock(once, name, "stranger", Date.now() + 1000),
  };
}

// Version 5 takes it from each call, and releases as often as it was told to try,
// also what is gone.
function version5() {
  const { default: Redlock, Lock, ExecutionError } = require("redlock5");
  const library = new Redlock([client], { retryDelay: pause, retryJitter: pause / 4, retryCount: 0 });
  return {
    busy: ExecutionError,
    acquire: (names, lease, wait) => library.acquire(names, lease, { retryCount: Math.ceil(wait / pause) }),
    release: (lock) => library.release(lock),
    extend: (lock, lease) => library.extend(lock, lease),
    stranger: (name) => new Lock(library, [name], "stranger", [], Date.now() + 1000),
  };
}

const redlock = process.argv[3] === "4" ? version4() : version5();

// acquire is false where the lock was held all the time.
async function acquire(held, { name, names = [name], lease, value }, wait) {
  if (value) throw new Error("node-redlock chooses its values itself");
  try {
    held.set(name, await redlock.acquire(names, lease, wait));
    return true;
  } catch (error) {
    if (error instanceof redlock.busy) return false;
    throw error;
  }
}

function holding(held, name) {
  const lock = held.get(name);
  if (!lock) throw new Error("never locked");
  return lock;
}

// Each takes the locks that a thread believes to hold, and a command.
const operations = {
  lock: (held, c) => acquire(held, c, c.wait ?? 0),
  tryLock: (held, c) => acquire(held, c, 0),
  async unlock(held, { name }) {
    const lock = holding(held, name);
    held.delete(name);
    await redlock.release(lock);
    return true;
  },
  async stranger(_, { name }) {
    await redlock.release(redlock.stranger(name));
    return true;
  },
  async extend(held, { name, lease }) {
    held.set(name, await redlock.extend(holding(held, name), lease));
    return true;
  },
  async rounds(held, { name, lease, n, value: counter }) {
    for (let i = 0; i < n; i++) {
      while (!(await acquire(held, { name, lease }, 60000)));
      const seen = Number((await client.get(counter)) ?? 0);
      await client.set(counter, seen + 1);
      await client.set(counter + ":last", "peer");
      await redlock.release(held.get(name));
      await new Promise((done) => setTimeout(done, Math.random() * think));
    }
    return n;
  },
};

function answer(id, fields) {
  process.stdout.write(JSON.stringify({ id, at: Number(process.hrtime.bigint()), ...fields }) + "\n");
}

const threads = new Map(); // logical thread: its locks, and the end of what it does

async function carryOut(held, command) {
  try {
    const operation = operations[command.op];
    if (!operation) throw new Error("node-redlock has no " + command.op);
    answer(command.id, { value: await operation(held, command) });
  } catch (error) {
    answer(command.id, { error: error.message, class: error.name });
  }
}

await client.ping();
answer(0, {});
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const name = command.thread ?? "main";
  if (!threads.has(name)) threads.set(name, { held: new Map(), last: Promise.resolve() });
  const thread = threads.get(name);
  thread.last = thread.last.then(() => carryOut(thread.held, command));
}
client.disconnect();
