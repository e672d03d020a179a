INSERT IGNORE INTO `shedlock` (name, lock_until, locked_at, locked_by)
VALUES (?, TIMESTAMP '2000-01-01 00:00:00', TIMESTAMP '2000-01-01 00:00:00', 'holdfast')
