-- The shop's own table. No constraint keeps pieces from being negative: lock and token do.
CREATE TABLE stock (item text PRIMARY KEY, pieces int NOT NULL);

-- The largest token of each lock, for pghold.CheckFence.
CREATE TABLE fence (name text COLLATE "C" PRIMARY KEY, token bigint NOT NULL);

-- An instance that is paused in a transaction must not block the others. New sessions have this.
ALTER ROLE CURRENT_USER SET idle_in_transaction_session_timeout = '5s';
