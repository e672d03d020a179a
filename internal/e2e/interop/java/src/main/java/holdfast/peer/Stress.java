package holdfast.peer;

import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import org.json.JSONObject;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Takes a lock n times, and in it adds 1 to the counter at the key "value", which nothing else
 * protects. It counts those inside at "value:in", and returns the largest number it saw. With "wait"
 * it throws if it had to wait for the lock for longer than that, in milliseconds.
 */
final class Stress {
  private final RedissonClient client;
  private final Operations operations;
  private final JSONObject command;
  private final String counter;

  Stress(RedissonClient client, Operations operations, JSONObject command) {
    this.client = client;
    this.operations = operations;
    this.command = command;
    counter = command.getString("value");
  }

  Object run() throws Throwable {
    String kind = command.optString("kind", "lock");
    long inside = 0;
    for (long i = 0; i < command.getLong("n"); i++) {
      inside = Math.max(inside, kind.equals("permits") || kind.equals("semaphore") ? permit(kind) : lock(kind));
    }
    return inside;
  }

  private long lock(String kind) throws Throwable {
    RLock lock = operations.object(kind, command);
    long began = System.nanoTime();
    lock.lock();
    try {
      limit(began);
      return kind.equals("read") ? look() : work();
    } finally {
      lock.unlock();
    }
  }

  private long permit(String kind) throws Exception {
    String name = command.getString("name");
    long began = System.nanoTime();
    if (kind.equals("semaphore")) {
      var semaphore = client.getSemaphore(name);
      semaphore.acquire();
      try {
        limit(began);
        return work();
      } finally {
        semaphore.release();
      }
    }
    var semaphore = client.getPermitExpirableSemaphore(name);
    String id = semaphore.acquire(30, SECONDS);
    try {
      limit(began);
      return work();
    } finally {
      semaphore.release(id);
    }
  }

  /** Throws if what was asked for at began took longer than it may. */
  private void limit(long began) {
    long waited = NANOSECONDS.toMillis(System.nanoTime() - began);
    long most = command.optLong("wait");
    if (most > 0 && waited > most) {
      throw new IllegalStateException("waited for " + waited + " ms, " + most + " ms are allowed");
    }
  }

  private long work() {
    var in = client.getAtomicLong(counter + ":in");
    long inside = in.incrementAndGet();
    operations.increment(counter);
    in.decrementAndGet();
    return inside;
  }

  /** A reader sees no writer inside. It returns 2 if it does. */
  private long look() {
    return client.getAtomicLong(counter + ":in").get() == 0 ? 1 : 2;
  }
}
