INSERT IGNORE INTO `holdfast_locks` (name, owner, note, token, since, expires, waiters) VALUES (?, NULL, '', 0, UTC_TIMESTAMP(6), '1970-01-01', '')
