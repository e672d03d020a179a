SELECT l.name, coalesce(l.owner, ''), l.note, l.token, l.tokens,
	(extract(epoch FROM clock_timestamp() - l.since) * 1000000)::bigint,
	(extract(epoch FROM l.expires - clock_timestamp()) * 1000000)::bigint,
	coalesce(l.forced_owner, ''), coalesce(l.forced_reason, ''), array_to_string(l.waiters, ',')
FROM unnest($1::text[]) AS c(key) CROSS JOIN LATERAL
	(SELECT * FROM "holdfast_locks" WHERE name >= c.key AND name <= c.key ORDER BY name DESC LIMIT 1) AS l
