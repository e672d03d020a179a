package importconf

import "strings"

// springUses reports whether a key, in canonical form and without what it begins
// with, is of use here.
func springUses(key string) bool {
	switch key {
	case "url", "host", "port", "username", "password", "database", "clientname", "timeout", "connecttimeout",
		"ssl", "ssl.enabled", "ssl.bundle",
		"sentinel.master", "sentinel.nodes", "sentinel.username", "sentinel.password",
		"cluster.nodes", "cluster.maxredirects", "masterreplica.nodes",
		"lettuce.pool.enabled", "lettuce.pool.maxactive", "lettuce.pool.maxidle", "lettuce.pool.minidle", "lettuce.pool.maxwait",
		"jedis.pool.enabled", "jedis.pool.maxactive", "jedis.pool.maxidle", "jedis.pool.minidle", "jedis.pool.maxwait":
		return true
	}
	return false
}

// springIgnores returns why a key that Spring Boot knows is of no use here, or "".
func springIgnores(key string) string {
	switch key {
	case "clienttype":
		return "there is no Lettuce and no Jedis here"
	case "repositories.enabled":
		return "it is about objects, not about locks"
	case "lettuce.shutdowntimeout":
		return "the client closes at once"
	case "lettuce.readfrom":
		return "nothing is read from replicas"
	case "lettuce.pool.timebetweenevictionruns", "jedis.pool.timebetweenevictionruns":
		return "the client looks after its connections by itself"
	}
	if strings.HasPrefix(key, "lettuce.cluster.refresh.") {
		return "the client watches the cluster by itself"
	}
	return ""
}
