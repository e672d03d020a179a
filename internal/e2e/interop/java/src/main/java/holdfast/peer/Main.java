package holdfast.peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.json.JSONObject;
import org.redisson.api.RedissonClient;

/**
 * Redisson for tests: reads a JSON command from each line of its input and writes a JSON answer
 * for each to its output. Its argument is the JSON of {@link Settings}.
 */
public final class Main {
  private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
  private final Map<String, Worker> workers = new ConcurrentHashMap<>();
  private final Operations operations;

  private Main(RedissonClient client) {
    operations = new Operations(client);
  }

  public static void main(String[] args) throws Exception {
    RedissonClient client = Settings.open(new JSONObject(args[0]));
    new Main(client).serve();
    Runtime.getRuntime().halt(0); // what is held stays held, as after a crash
  }

  private void serve() throws Exception {
    answer(0, null, null);
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      var command = new JSONObject(line);
      if (command.getString("op").equals("interrupt")) {
        worker(command.getString("value")).interrupt();
        answer(command.getLong("id"), null, null);
        continue;
      }
      if (command.getString("op").equals("sleeps")) {
        answer(command.getLong("id"), worker(command.getString("value")).sleeps(), null);
        continue;
      }
      worker(command.optString("thread", "main")).submit(() -> carryOut(command));
    }
  }

  private Worker worker(String name) {
    return workers.computeIfAbsent(name, Worker::new);
  }

  private void carryOut(JSONObject command) {
    Object value = null;
    Throwable thrown = null;
    try {
      value = operations.run(command);
    } catch (Throwable t) {
      thrown = t;
    }
    answer(command.getLong("id"), value, thrown);
  }

  /** Returns the message of what was thrown, and what caused it. */
  private static String explain(Throwable thrown) {
    var text = new StringBuilder(String.valueOf(thrown.getMessage()));
    for (Throwable cause = thrown.getCause(); cause != null; cause = cause.getCause()) {
      text.append(" <- ").append(cause);
    }
    return text.toString();
  }

  private void answer(long id, Object value, Throwable thrown) {
    var reply = new JSONObject().put("id", id).put("at", System.nanoTime());
    if (thrown != null) {
      reply.put("class", thrown.getClass().getName()).put("error", explain(thrown));
    } else if (value != null) {
      reply.put("value", value);
    }
    synchronized (out) {
      out.println(reply);
      out.flush();
    }
  }
}
