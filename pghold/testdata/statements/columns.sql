SELECT a.attname, replace(format_type(a.atttypid, NULL), '"', ''), coalesce(c.collisdeterministic, true)
FROM pg_attribute AS a LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
