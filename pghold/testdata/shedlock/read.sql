SELECT name, COALESCE(locked_by, ''),
	(extract(epoch FROM greatest(least(timezone('utc', clock_timestamp()), timestamp '9999-12-31'), timestamp '0001-01-01') - greatest(least(COALESCE(locked_at, timezone('utc', clock_timestamp())), timestamp '9999-12-31'), timestamp '0001-01-01')) * 1000000)::bigint,
	(extract(epoch FROM greatest(least(COALESCE(lock_until, timezone('utc', clock_timestamp())), timestamp '9999-12-31'), timestamp '0001-01-01') - greatest(least(timezone('utc', clock_timestamp()), timestamp '9999-12-31'), timestamp '0001-01-01')) * 1000000)::bigint,
	(extract(epoch FROM greatest(least(COALESCE(locked_at, TIMESTAMP '1970-01-01 00:00:00'), timestamp '9999-12-31'), timestamp '0001-01-01') - greatest(least(TIMESTAMP '1970-01-01 00:00:00', timestamp '9999-12-31'), timestamp '0001-01-01')) * 1000000)::bigint
FROM "shedlock" WHERE name IN ($1, $2)
