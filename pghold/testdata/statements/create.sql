CREATE TABLE IF NOT EXISTS "holdfast_locks" (
	name text COLLATE "C" PRIMARY KEY,
	owner text,
	note text NOT NULL DEFAULT '',
	token bigint NOT NULL,
	tokens integer NOT NULL DEFAULT 1,
	since timestamptz NOT NULL,
	expires timestamptz NOT NULL,
	waiters text[] NOT NULL DEFAULT '{}',
	wanted boolean NOT NULL DEFAULT false,
	forced_owner text,
	forced_reason text
) WITH (fillfactor = 50)
