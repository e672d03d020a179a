package holdfast.peer;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.json.JSONObject;

/**
 * Curator for tests: reads a JSON command from each line of its input and writes a JSON answer for
 * each to its output. Its arguments are the servers and the timeout of the session in ms.
 *
 * <p>The operations: lock waits up to wait ms for the lock of a kind (lock, read, write) at the path
 * name, and answers whether it has it; unlock; rounds takes it n times, and adds one to the number
 * in the node value each time. acquire and release do the first two for one of two permits of a
 * semaphore. migration runs the program of {@link Migration}, and answers whether it got its lock.
 */
public final class Main {
  private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
  private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
  private final Map<String, InterProcessMutex> locks = new HashMap<>(); // Curator counts per object
  private final Deque<Lease> leases = new ArrayDeque<>();
  private final CuratorFramework client;

  private Main(CuratorFramework client) {
    this.client = client;
  }

  public static void main(String[] args) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(
            args[0], Integer.parseInt(args[1]), 10_000, new ExponentialBackoffRetry(100, 10));
    client.start();
    client.blockUntilConnected();
    new Main(client).serve();
    Runtime.getRuntime().halt(0); // what is held stays held, as after a crash
  }

  private void serve() throws Exception {
    answer(0, null, null);
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      var command = new JSONObject(line);
      threads
          .computeIfAbsent(command.optString("thread", "main"), t -> Executors.newSingleThreadExecutor())
          .submit(() -> carryOut(command));
    }
  }

  private void carryOut(JSONObject command) {
    Object value = null;
    Throwable thrown = null;
    try {
      value = run(command);
    } catch (Throwable t) {
      thrown = t;
    }
    answer(command.getLong("id"), value, thrown);
  }

  private synchronized InterProcessMutex lock(String kind, String path) {
    return locks.computeIfAbsent(
        kind + " " + path,
        key ->
            switch (kind) {
              case "read" -> new InterProcessReadWriteLock(client, path).readLock();
              case "write" -> new InterProcessReadWriteLock(client, path).writeLock();
              default -> new InterProcessMutex(client, path);
            });
  }

  private boolean acquire(JSONObject c) throws Exception {
    var semaphore = new InterProcessSemaphoreV2(client, c.getString("name"), 2);
    Lease lease = semaphore.acquire(c.optLong("wait"), MILLISECONDS);
    if (lease == null) {
      return false;
    }
    synchronized (leases) {
      leases.push(lease);
    }
    return true;
  }

  private boolean release() throws Exception {
    synchronized (leases) {
      leases.pop().close();
    }
    return true;
  }

  private Object run(JSONObject c) throws Exception {
    switch (c.getString("op")) {
      case "acquire":
        return acquire(c);
      case "release":
        return release();
      case "migration":
        return new Migration(client).deployed();
      default:
        return locked(c);
    }
  }

  private Object locked(JSONObject c) throws Exception {
    InterProcessMutex lock = lock(c.optString("kind", "lock"), c.getString("name"));
    switch (c.getString("op")) {
      case "lock":
        return lock.acquire(c.optLong("wait"), MILLISECONDS);
      case "unlock":
        lock.release();
        return true;
      case "rounds":
        for (long i = 0; i < c.getLong("n"); i++) {
          lock.acquire();
          try {
            count(c.getString("value"));
          } finally {
            lock.release();
          }
        }
        return true;
      default:
        throw new IllegalArgumentException("operation " + c.getString("op"));
    }
  }

  /** Reads and writes the number, so that who is inside beside another loses a count. */
  private void count(String node) throws Exception {
    client.sync().forPath(node);
    long n = Long.parseLong(new String(client.getData().forPath(node), StandardCharsets.UTF_8));
    client.setData().forPath(node, Long.toString(n + 1).getBytes(StandardCharsets.UTF_8));
  }

  private void answer(long id, Object value, Throwable thrown) {
    var reply = new JSONObject().put("id", id).put("at", System.nanoTime());
    if (thrown != null) {
      reply.put("class", thrown.getClass().getName()).put("error", String.valueOf(thrown.getMessage()));
    } else if (value != null) {
      reply.put("value", value);
    }
    synchronized (out) {
      out.println(reply);
      out.flush();
    }
  }
}
