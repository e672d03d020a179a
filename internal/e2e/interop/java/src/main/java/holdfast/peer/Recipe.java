package holdfast.peer;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** What docs/recipes.md has of Java. */
final class Recipe {
  private final RedissonClient redisson;
  private boolean shipped;

  Recipe(RedissonClient redisson) {
    this.redisson = redisson;
  }

  boolean shipped() {
    RLock lock = redisson.getLock("stock:42");
    lock.lock();
    try {
      ship();
    } finally {
      lock.unlock();
    }
    return shipped;
  }

  private void ship() {
    shipped = true;
  }
}
