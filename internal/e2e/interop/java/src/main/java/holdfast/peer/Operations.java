package holdfast.peer;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import org.json.JSONObject;
import org.redisson.RedissonMultiLock;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The commands. Times are in milliseconds; a lease of 0 is the watchdog's. */
final class Operations {
  private final RedissonClient client;

  Operations(RedissonClient client) {
    this.client = client;
  }

  Object run(JSONObject c) throws Throwable {
    if (c.getString("op").equals("stress")) {
      return new Stress(client, this, c).run();
    }
    if (c.getString("op").equals("recipe")) {
      return new Recipe(client).shipped();
    }
    if (c.getString("op").equals("migration")) {
      return new Migration(client).shipped();
    }
    String kind = c.optString("kind", "lock");
    switch (kind) {
      case "semaphore":
        return semaphore(client.getSemaphore(c.getString("name")), c);
      case "permits":
        return permits(client.getPermitExpirableSemaphore(c.getString("name")), c);
      case "latch":
        return latch(client.getCountDownLatch(c.getString("name")), c);
      default:
        return lock(object(kind, c), c);
    }
  }

  /** Returns the lock of a kind. Newer kinds are looked up: older versions have no such method. */
  RLock object(String kind, JSONObject c) throws Throwable {
    String name = c.optString("name");
    switch (kind) {
      case "lock":
        return client.getLock(name);
      case "fair":
        return client.getFairLock(name);
      case "read":
        return client.getReadWriteLock(name).readLock();
      case "write":
        return client.getReadWriteLock(name).writeLock();
      case "spin":
        return client.getSpinLock(name);
      case "fenced":
        return named("getFencedLock", name);
      case "nonreentrant":
        return named("getNonReentrantLock", name);
      case "multi":
        return new RedissonMultiLock(all(c));
      default:
        throw new IllegalArgumentException("kind " + kind);
    }
  }

  private RLock named(String method, String name) throws Throwable {
    return (RLock) invoke(client, RedissonClient.class, method, new Class<?>[] {String.class}, name);
  }

  private RLock[] all(JSONObject c) {
    List<RLock> locks = new ArrayList<>();
    for (Object name : c.getJSONArray("names")) {
      locks.add(client.getLock((String) name));
    }
    return locks.toArray(new RLock[0]);
  }

  private static Object invoke(Object on, Class<?> type, String method, Class<?>[] types, Object... args)
      throws Throwable {
    try {
      return type.getMethod(method, types).invoke(on, args);
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  private Object lock(RLock l, JSONObject c) throws Throwable {
    long lease = c.optLong("lease");
    switch (c.getString("op")) {
      case "lock":
        if (lease > 0) {
          l.lock(lease, MILLISECONDS);
        } else {
          l.lock();
        }
        return null;
      case "lockInterruptibly":
        l.lockInterruptibly();
        return null;
      case "tryLock":
        if (c.optLong("wait") == 0 && lease == 0) {
          return l.tryLock();
        }
        return l.tryLock(c.optLong("wait"), lease > 0 ? lease : -1, MILLISECONDS);
      case "unlock":
        l.unlock();
        return null;
      case "forceUnlock":
        return l.forceUnlock();
      case "isLocked":
        return l.isLocked();
      case "isHeld":
        return l.isHeldByCurrentThread();
      case "holdCount":
        return l.getHoldCount();
      case "ttl":
        return l.remainTimeToLive();
      case "lockAndGetToken":
        return invoke(l, Class.forName("org.redisson.api.RFencedLock"), "lockAndGetToken", new Class<?>[0]);
      case "token":
        return invoke(l, Class.forName("org.redisson.api.RFencedLock"), "getToken", new Class<?>[0]);
      default:
        throw new IllegalArgumentException("op " + c.getString("op"));
    }
  }

  private static Object semaphore(RSemaphore s, JSONObject c) throws Exception {
    int n = c.optInt("n", 1);
    switch (c.getString("op")) {
      case "trySetPermits":
        return s.trySetPermits(n);
      case "acquire":
        s.acquire(n);
        return null;
      case "tryAcquire":
        return c.optLong("wait") == 0 ? s.tryAcquire(n) : s.tryAcquire(n, c.getLong("wait"), MILLISECONDS);
      case "release":
        s.release(n);
        return null;
      case "available":
        return s.availablePermits();
      case "addPermits":
        s.addPermits(n);
        return null;
      case "drainPermits":
        return s.drainPermits();
      default:
        throw new IllegalArgumentException("op " + c.getString("op"));
    }
  }

  private static Object permits(RPermitExpirableSemaphore s, JSONObject c) throws Exception {
    int n = c.optInt("n", 1);
    long lease = c.optLong("lease");
    switch (c.getString("op")) {
      case "trySetPermits":
        return s.trySetPermits(n);
      case "acquire":
        return lease > 0 ? s.acquire(lease, MILLISECONDS) : s.acquire();
      case "tryAcquire":
        return s.tryAcquire(c.optLong("wait"), lease > 0 ? lease : -1, MILLISECONDS);
      case "release":
        s.release(c.getString("value"));
        return null;
      case "tryRelease":
        return s.tryRelease(c.getString("value"));
      case "available":
        return s.availablePermits();
      case "addPermits":
        s.addPermits(n);
        return null;
      default:
        throw new IllegalArgumentException("op " + c.getString("op"));
    }
  }

  private static Object latch(RCountDownLatch l, JSONObject c) throws Exception {
    switch (c.getString("op")) {
      case "trySetCount":
        return l.trySetCount(c.getLong("n"));
      case "countDown":
        l.countDown();
        return null;
      case "await":
        return l.await(c.getLong("wait"), MILLISECONDS);
      case "count":
        return l.getCount();
      default:
        throw new IllegalArgumentException("op " + c.getString("op"));
    }
  }

  /** A counter that nothing protects but the lock: plain GET and SET. */
  void increment(String key) {
    var counter = client.<String>getBucket(key, StringCodec.INSTANCE);
    String was = counter.get();
    counter.set(Long.toString((was == null ? 0 : Long.parseLong(was)) + 1));
  }
}
