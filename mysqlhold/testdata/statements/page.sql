SELECT name, COALESCE(owner, ''), note, token, tokens, TIMESTAMPDIFF(MICROSECOND, since, UTC_TIMESTAMP(6)),
	TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires), COALESCE(forced_owner, ''), COALESCE(forced_reason, ''), waiters FROM `holdfast_locks` WHERE name >= ? AND name > ? ORDER BY name LIMIT ?
