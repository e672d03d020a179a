SELECT LOWER(c.column_name), LOWER(c.column_type), COALESCE(t.engine, ''), @@SESSION.autocommit, '' IS NULL
FROM information_schema.columns AS c JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = COALESCE(?, DATABASE()) AND c.table_name = ? LIMIT 18446744073709551615
