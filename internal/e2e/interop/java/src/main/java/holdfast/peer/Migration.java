package holdfast.peer;

import static java.util.concurrent.TimeUnit.SECONDS;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** What docs/migrating-java.md has of Redisson. */
final class Migration {
  private final RedissonClient redisson;
  private boolean shipped;

  Migration(RedissonClient redisson) {
    this.redisson = redisson;
  }

  boolean shipped() throws InterruptedException {
    RLock lock = redisson.getLock("stock:42");
    if (lock.tryLock(10, SECONDS)) {
      try {
        ship();
      } finally {
        lock.unlock();
      }
    }
    return shipped;
  }

  private void ship() {
    shipped = true;
  }
}
