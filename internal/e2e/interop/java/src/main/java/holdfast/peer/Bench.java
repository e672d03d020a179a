package holdfast.peer;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.HdrHistogram.ConcurrentHistogram;
import org.HdrHistogram.Histogram;
import org.json.JSONObject;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * A measuring process of module bench, with the locks of Redisson: it reads a Plan and writes a
 * Result, as Serve of package work does. It knows the works of one lock that are measured by time.
 */
public final class Bench {
  private static final VarHandle WORDS = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
  private static final int SLOTS = 4096; // these are those of package work
  private static final int SLOT_SIZE = 64;
  private static final long WRITER = 1 << 20;

  /** The end of a histogram, in ns: what takes longer counts as so long. */
  private static final long LONGEST = 600_000_000_000L;

  private enum Phase {
    WARMING,
    MEASURING,
    OVER
  }

  private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
  private final AtomicLong violations = new AtomicLong();
  private final Histogram took = new ConcurrentHistogram(LONGEST, 3);
  private volatile Phase phase = Phase.WARMING;
  private volatile Throwable failed;
  private JSONObject plan;
  private JSONObject work;
  private ByteBuffer page;
  private int process;

  public static void main(String[] args) throws Exception {
    System.out.println(new Bench().run());
    Runtime.getRuntime().halt(0); // threads may still wait for a lock
  }

  private JSONObject run() throws Exception {
    plan = new JSONObject(in.readLine());
    work = plan.getJSONObject("Work");
    process = plan.getInt("Process");
    try (var file = FileChannel.open(Path.of(plan.getString("Page")), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      page = file.map(FileChannel.MapMode.READ_WRITE, 0, (long) SLOTS * SLOT_SIZE);
    }
    RedissonClient client = open(plan.getJSONObject("Target"));
    var all = new ArrayList<Pairs>();
    for (int i = 0; i < work.getInt("Goroutines"); i++) {
      all.add(new Pairs(client, i));
    }
    all.forEach(Thread::start);
    JSONObject result = measure(all);
    return failed == null ? result : result.put("Error", failed.toString());
  }

  private static RedissonClient open(JSONObject target) {
    var config = new Config();
    config.setCodec(StringCodec.INSTANCE).setLockWatchdogTimeout(nanos(target.getString("TTL")) / 1_000_000);
    config.useSingleServer().setAddress("redis://" + target.getString("Redis"));
    return Redisson.create(config);
  }

  /** Reads a duration as Go writes it. */
  private static long nanos(String text) {
    if (text.endsWith("ms")) {
      return (long) (Double.parseDouble(text.substring(0, text.length() - 2)) * 1e6);
    }
    return Duration.parse("PT" + text).toNanos();
  }

  private JSONObject measure(List<Pairs> all) throws Exception {
    Thread.sleep(nanos(plan.getString("Warm")) / 1_000_000); // while the JVM compiles
    System.gc();
    exchange("ready");
    long cpu = processTime();
    long begun = System.nanoTime();
    phase = phase == Phase.WARMING ? Phase.MEASURING : phase;
    Thread.sleep(nanos(plan.getString("Sample")) / 1_000_000);
    phase = Phase.OVER;
    var result = new JSONObject().put("Elapsed", System.nanoTime() - begun).put("CPU", processTime() - cpu);
    exchange("done");
    return result
        .put("Pairs", all.stream().mapToLong(w -> w.pairs).sum())
        .put("Turns", all.stream().mapToLong(w -> w.turns).sum())
        .put("Each", all.stream().map(w -> w.pairs).toList())
        .put("Longest", all.stream().mapToLong(w -> w.longest).max().orElse(0))
        .put("Latency", latency())
        .put("Violations", violations.get());
  }

  /** Returns how long the pairs took, in the format that all HdrHistograms share. */
  private String latency() {
    var buffer = ByteBuffer.allocate(took.getNeededByteBufferCapacity());
    int length = took.encodeIntoCompressedByteBuffer(buffer);
    return Base64.getEncoder().encodeToString(Arrays.copyOf(buffer.array(), length));
  }

  private void exchange(String word) throws Exception {
    System.out.println(word);
    if (in.readLine() == null) {
      Runtime.getRuntime().halt(1); // nobody waits for the result
    }
  }

  private static long processTime() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }

  /** A thread that locks and unlocks until the sample is over, as a goroutine of the work does. */
  private final class Pairs extends Thread {
    private final boolean shared = work.getString("Kind").equals("one");
    private final boolean counts = shared && work.getInt("Processes") > 1;
    private final int slot;
    private final RLock lock;
    volatile long pairs; // only this thread writes these
    volatile long turns;
    volatile long longest;

    Pairs(RedissonClient client, int number) {
      int own = process * work.getInt("Goroutines") + number;
      slot = shared ? 0 : own % SLOTS * SLOT_SIZE;
      lock = client.getLock(shared ? "one" : "own:" + own);
    }

    @Override
    public void run() {
      try {
        while (phase != Phase.OVER) {
          pair();
        }
      } catch (Throwable t) {
        failed = phase == Phase.OVER ? failed : t;
        phase = Phase.OVER;
      }
    }

    private void pair() {
      long asked = System.nanoTime();
      lock.lock();
      long waited = System.nanoTime() - asked;
      if ((long) WORDS.getAndAdd(page, slot, WRITER) != 0) {
        violations.incrementAndGet();
      }
      boolean turn = counts && changed((long) WORDS.getAndSet(page, slot + 16, process + 1L));
      WORDS.getAndAdd(page, slot, -WRITER);
      lock.unlock();
      if (phase == Phase.MEASURING) {
        pairs++;
        turns += turn ? 1 : 0;
        longest = shared ? Math.max(longest, waited) : 0;
        took.recordValue(Math.min(System.nanoTime() - asked, LONGEST));
      }
    }

    private boolean changed(long before) {
      return before != 0 && before != process + 1;
    }
  }
}
