SELECT a.attname, replace(format_type(a.atttypid, a.atttypmod), '"', ''), NOT coalesce(c.collisdeterministic, true),
	a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '',
	EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indimmediate
		AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
FROM pg_attribute AS a LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
