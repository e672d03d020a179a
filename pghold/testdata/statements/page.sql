SELECT l.name, coalesce(l.owner, ''), l.note, l.token, l.tokens,
	(extract(epoch FROM clock_timestamp() - l.since) * 1000000)::bigint,
	(extract(epoch FROM l.expires - clock_timestamp()) * 1000000)::bigint,
	coalesce(l.forced_owner, ''), coalesce(l.forced_reason, ''), array_to_string(l.waiters, ',')
FROM "holdfast_locks" AS l WHERE name >= $1 AND name > $2 ORDER BY name LIMIT $3
