package holdfast.peer;

import static java.util.concurrent.TimeUnit.SECONDS;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** What docs/migrating-java.md has of Curator. */
final class Migration {
  private final CuratorFramework client;
  private boolean deployed;

  Migration(CuratorFramework client) {
    this.client = client;
  }

  boolean deployed() throws Exception {
    InterProcessMutex mutex = new InterProcessMutex(client, "/locks/deploy");
    if (mutex.acquire(10, SECONDS)) {
      try {
        deploy();
      } finally {
        mutex.release();
      }
    }
    return deployed;
  }

  private void deploy() {
    deployed = true;
  }
}
