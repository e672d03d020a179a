package holdfast.peer;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A thread of its own: Redisson's locks belong to threads. */
final class Worker {
  private final BlockingQueue<Runnable> queue = new LinkedBlockingQueue<>();
  private final Thread thread;

  Worker(String name) {
    thread = new Thread(this::loop, name);
    thread.setDaemon(true);
    thread.start();
  }

  void submit(Runnable task) {
    queue.add(task);
  }

  /** Interrupts what the thread waits in. */
  void interrupt() {
    thread.interrupt();
  }

  /** Tells whether the thread sleeps in a lock, semaphore or latch of Redisson until it is told. */
  boolean sleeps() {
    if (thread.getState() == Thread.State.RUNNABLE) {
      return false;
    }
    for (StackTraceElement at : thread.getStackTrace()) {
      if (at.getClassName().startsWith("java.util.concurrent.Semaphore") || at.getClassName().contains("ReclosableLatch")) {
        return true;
      }
    }
    return false;
  }

  private void loop() {
    while (true) {
      try {
        queue.take().run();
      } catch (InterruptedException e) {
        // It came after what it was meant for.
      }
    }
  }
}
