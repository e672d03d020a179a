UPDATE `holdfast_locks` JOIN (SELECT name FROM `holdfast_locks` WHERE name = ? LIMIT 1 FOR UPDATE SKIP LOCKED) AS unlocked USING (name) SET
	token = LAST_INSERT_ID(IF(expires <= UTC_TIMESTAMP(6), GREATEST(token + ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ? - 1), token)),
	tokens = IF(expires <= UTC_TIMESTAMP(6), ?, tokens),
	since = IF(expires <= UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), since),
	waiters = IF(expires <= UTC_TIMESTAMP(6) AND IF(FIND_IN_SET(?, waiters) > 0, FIND_IN_SET(?, waiters) - 1, IF(waiters = '', 0, 1 + LENGTH(waiters) - LENGTH(REPLACE(waiters, ',', '')))) + 1 < IF(waiters = '', 0, 1 + LENGTH(waiters) - LENGTH(REPLACE(waiters, ',', ''))), SUBSTRING_INDEX(waiters, ',', IF(FIND_IN_SET(?, waiters) > 0, FIND_IN_SET(?, waiters) - 1, IF(waiters = '', 0, 1 + LENGTH(waiters) - LENGTH(REPLACE(waiters, ',', '')))) + 1 - IF(waiters = '', 0, 1 + LENGTH(waiters) - LENGTH(REPLACE(waiters, ',', '')))), IF(expires <= UTC_TIMESTAMP(6), '', waiters)),
	expires = IF(expires <= UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, GREATEST(expires, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)),
	owner = ?, note = ?
WHERE (expires + INTERVAL LEAST(IF(FIND_IN_SET(?, waiters) > 0, FIND_IN_SET(?, waiters) - 1, IF(waiters = '', 0, 1 + LENGTH(waiters) - LENGTH(REPLACE(waiters, ',', '')))), 8) * 300000 MICROSECOND <= UTC_TIMESTAMP(6) OR owner = ? AND expires > UTC_TIMESTAMP(6))
