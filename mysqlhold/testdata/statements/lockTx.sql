INSERT INTO `holdfast_locks` (name, owner, note, token, since, expires, waiters) VALUES (?, NULL, '', 1, UTC_TIMESTAMP(6), '1970-01-01', '')
ON DUPLICATE KEY UPDATE token = token + 1, since = UTC_TIMESTAMP(6)
