UPDATE `holdfast_locks` SET token = LAST_INSERT_ID(GREATEST(token + ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ? - 1)),
	tokens = ?, since = UTC_TIMESTAMP(6), expires = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, owner = ?, note = ?
WHERE name = ? AND expires <= UTC_TIMESTAMP(6) AND waiters = ''
