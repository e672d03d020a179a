package holdfast.peer;

import java.time.Duration;
import java.time.Instant;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;

/** What docs/migrating-java.md has of ShedLock. */
final class Migration {
  private final JdbcTemplate jdbc;
  private boolean reported;

  Migration(JdbcTemplate jdbc) {
    this.jdbc = jdbc;
  }

  boolean reported() {
    LockProvider provider =
        new JdbcTemplateLockProvider(
            JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(jdbc).usingDbTime().build());
    LockingTaskExecutor executor = new DefaultLockingTaskExecutor(provider);
    executor.executeWithLock(
        (Runnable) this::report,
        new LockConfiguration(
            Instant.now(), "report", Duration.ofMinutes(10), Duration.ofSeconds(50)));
    return reported;
  }

  private void report() {
    reported = true;
  }
}
