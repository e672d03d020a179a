-- The shop's own table.
CREATE TABLE stock (item text PRIMARY KEY, pieces int NOT NULL CHECK (pieces >= 0));

-- The largest token of each lock, for pghold.CheckFence.
CREATE TABLE fence (name text COLLATE "C" PRIMARY KEY, token bigint NOT NULL);
