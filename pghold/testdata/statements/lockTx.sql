INSERT INTO "holdfast_locks" AS l (name, token, since, expires) VALUES ($1, 1, clock_timestamp(), 'epoch')
ON CONFLICT (name) DO UPDATE SET token = l.token + 1, since = clock_timestamp()
