SELECT LOWER(c.column_name), LOWER(c.column_type),
	c.is_nullable = 'NO' AND c.column_default IS NULL AND c.extra NOT LIKE '%auto_increment%' AND COALESCE(c.generation_expression, '') = '',
	EXISTS (SELECT 1 FROM information_schema.statistics AS i WHERE i.table_schema = c.table_schema AND i.table_name = c.table_name
		AND i.non_unique = 0 GROUP BY i.index_name HAVING COUNT(*) = 1 AND MAX(i.column_name) = c.column_name AND MAX(i.sub_part) IS NULL),
	COALESCE(t.engine, ''), @@SESSION.autocommit, @@SESSION.time_zone = @@GLOBAL.time_zone
FROM information_schema.columns AS c JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = COALESCE(?, DATABASE()) AND c.table_name = ? LIMIT 18446744073709551615
