INSERT INTO "shedlock" (name, lock_until, locked_at, locked_by)
VALUES ($1, TIMESTAMP '2000-01-01 00:00:00', TIMESTAMP '2000-01-01 00:00:00', 'holdfast') ON CONFLICT (name) DO NOTHING
