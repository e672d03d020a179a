package holdfast.peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.json.JSONObject;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * ShedLock for tests: reads a JSON command from each line of its input and writes a JSON answer for
 * each to its output. Its argument is the URL of a database, or of Redis: there its keys begin with
 * job-lock:default: and it compares them before it changes them.
 *
 * <p>The operations: lock takes the lock name with lease as lockAtMostFor and n as lockAtLeastFor,
 * both in ms, tries again for up to wait ms, and answers whether it has it; extend and unlock;
 * rounds takes it n times, and adds one to the number in the table value each time. migration runs
 * the job of {@link Migration}, and answers whether it did its work.
 */
public final class Main {
  private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
  private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
  private final Map<String, SimpleLock> locks = new ConcurrentHashMap<>(); // by name
  private final JdbcTemplate database; // null for Redis
  private final LockProvider provider;

  private Main(JdbcTemplate database, LockProvider provider) {
    this.database = database;
    this.provider = provider;
  }

  private static Main inDatabase(String url) {
    var database = new JdbcTemplate(new DriverManagerDataSource(url));
    return new Main(
        database,
        new JdbcTemplateLockProvider(
            JdbcTemplateLockProvider.Configuration.builder()
                .withJdbcTemplate(database)
                .usingDbTime()
                .build()));
  }

  private static Main inRedis(URI url) {
    var server =
        new JedisConnectionFactory(new RedisStandaloneConfiguration(url.getHost(), url.getPort()));
    server.afterPropertiesSet();
    server.start();
    return new Main(null, new RedisLockProvider.Builder(server).safeUpdate(true).build());
  }

  public static void main(String[] args) throws Exception {
    String url = args[0];
    (url.startsWith("redis://") ? inRedis(URI.create(url)) : inDatabase(url)).serve();
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

  /** Tries until it has the lock, or for wait ms: ShedLock itself never waits. */
  private Optional<SimpleLock> lock(String name, long lease, long least, long wait) throws Exception {
    for (long end = System.nanoTime() + wait * 1_000_000; ; Thread.sleep(10)) {
      Optional<SimpleLock> lock =
          provider.lock(
              new LockConfiguration(
                  Instant.now(), name, Duration.ofMillis(lease), Duration.ofMillis(least)));
      if (lock.isPresent() || System.nanoTime() >= end) {
        return lock;
      }
    }
  }

  private Object run(JSONObject c) throws Exception {
    if (c.getString("op").equals("migration")) {
      return new Migration(database).reported();
    }
    String name = c.getString("name");
    switch (c.getString("op")) {
      case "lock":
        Optional<SimpleLock> got =
            lock(name, c.getLong("lease"), c.optLong("n"), c.optLong("wait"));
        got.ifPresent(lock -> locks.put(name, lock));
        return got.isPresent();
      case "extend":
        Optional<SimpleLock> longer =
            locks.remove(name).extend(Duration.ofMillis(c.getLong("lease")), Duration.ZERO);
        longer.ifPresent(lock -> locks.put(name, lock));
        return longer.isPresent();
      case "unlock":
        locks.remove(name).unlock();
        return true;
      case "rounds":
        for (long i = 0; i < c.getLong("n"); i++) {
          SimpleLock lock = lock(name, 30_000, 0, 60_000).orElseThrow();
          count(c.getString("value"));
          lock.unlock();
        }
        return true;
      default:
        throw new IllegalArgumentException("operation " + c.getString("op"));
    }
  }

  /** Reads and writes the number, so that who is inside beside another loses a count. */
  private void count(String table) {
    Long n = database.queryForObject("SELECT n FROM " + table, Long.class);
    database.update("UPDATE " + table + " SET n = ?", n + 1);
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
