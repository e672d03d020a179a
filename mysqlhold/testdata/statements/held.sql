SELECT name, owner FROM `holdfast_locks` WHERE name IN ({names}) AND owner IN ({names}) AND expires > UTC_TIMESTAMP(6) LIMIT 18446744073709551615
