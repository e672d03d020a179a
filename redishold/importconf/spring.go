package importconf

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Spring reads the keys spring.data.redis.* and spring.redis.* of the first document of an
// application.properties or application.yaml of Spring Boot 2 to 4: the server, the login, the
// pool, TLS and the timeouts. Other keys are not listed in Ignored. The parameter `name` is the
// name of the file. The ending of this name decides the format.
//
// Spring replaces the placeholders ${NAME} and ${NAME:default} with the result of env. If env
// has no value for NAME, Spring calls env with the spelling of environment variables, such as
// MY_HOST for my.host. If env has no value for that spelling either, Spring uses the key NAME
// of the file. env may be nil. Spring reads no other files, and no variables that override a
// key of the file.
func Spring(file []byte, name string, env func(name string) (string, bool)) (*Settings, error) {
	r := newReader(env, springTime)
	outside := r.lookUp
	r.lookUp = func(name string) (string, bool) {
		value, ok := outside(name)
		if !ok {
			value, ok = outside(strings.ToUpper(strings.NewReplacer(".", "_", "-", "").Replace(name)))
		}
		if values := r.keys[canonical(name)].values; !ok && len(values) == 1 {
			return values[0], true
		}
		return value, ok
	}
	var properties []property
	switch strings.ToLower(path.Ext(name)) {
	case ".properties":
		properties = r.properties(file)
	case ".yaml", ".yml":
		for _, root := range r.documents(file) {
			properties = append(properties, r.flatten(root, property{later: len(properties) > 0})...)
		}
	default:
		r.fault(property{}, "the name of the file ends neither with .properties nor with .yaml or .yml")
	}
	r.springSection(properties)
	s := &r.s
	s.ClientName = r.text(r.get(".clientname"))
	s.DialTimeout = r.time(r.get(".connecttimeout"), true)
	s.Timeout = r.time(r.get(".timeout"), true)
	pool := func(key string) property { return r.get(".lettuce.pool."+key, ".jedis.pool."+key) }
	s.Pool = Pool{
		Size:    r.number(pool("maxactive")),
		MinIdle: r.number(pool("minidle")),
		MaxIdle: r.number(pool("maxidle")),
		Wait:    r.time(pool("maxwait"), true),
	}
	ssl := r.get(".ssl", ".ssl.enabled")
	bundle := r.get(".ssl.bundle")
	s.TLS.Enabled = r.yes(ssl, bundle.line != 0) // also an empty bundle enables TLS
	if bundle.line != 0 {
		r.ignore(bundle, "the certificates of a bundle are not read: set CACert, Cert and Key of Settings.TLS", s.TLS.Enabled)
	}
	r.springServers()
	for _, p := range r.rest() {
		name, ours := strings.CutPrefix(p.name, r.section+".")
		switch {
		case p.name == "spring.config.import":
			r.ignore(p, "holdfast does not read other files, so their settings of Redis are missing", true)
		case p.name == "spring.profiles.active", p.name == "spring.profiles.include":
			r.ignore(p, "holdfast does not read the files of profiles, so their settings of Redis are missing", true)
		case ours:
			r.reportUnused(p, inSpring, name)
		case ofRedis(p):
			r.ignore(p, "the file also has keys that begin with spring.data.redis, and Spring Boot 3 reads only those", true)
		}
	}
	return r.result("Spring")
}

// checkRedisson finds keys for Redisson. A key of Redisson's starter is an error: if the file
// has such a key, the Java program does not use the keys of Spring. Another key of Redisson is
// an error if the file has no key of Spring for Redis. If the file has such a key of Spring,
// checkRedisson adds the key of Redisson to the ignored keys.
func (r *reader) checkRedisson() {
	const remedy = "if the key names a file, import that file as a file of Redisson; if the key has the settings, save them in a file, and import that file"
	spring := slices.ContainsFunc(r.rest(), ofRedis)
	for _, p := range r.rest() {
		starter := strings.HasPrefix(p.name, boot2+"redisson.") || strings.HasPrefix(p.name, boot3+"redisson.")
		other := strings.HasPrefix(p.name, "redisson.") || strings.HasPrefix(p.name, "spring.redisson.")
		switch {
		case starter || other && !spring:
			r.fault(p, "Redisson uses the connection settings of this key: %s", remedy)
		case other:
			r.ignore(p, "a program with Redisson may use the connection settings of this key, and not those of the other keys: "+remedy, true)
		default:
			continue
		}
		return
	}
}

const (
	boot3 = "spring.data.redis." // Spring Boot 3 and 4
	boot2 = "spring.redis."      // Spring Boot 2
)

// ofRedis reports whether p is a key of Spring for Redis.
func ofRedis(p property) bool {
	return strings.HasPrefix(p.name, boot3) || strings.HasPrefix(p.name, boot2)
}

// canonical returns one spelling for all spellings that are the same key for Spring.
func canonical(key string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
}

// springSection indexes the keys of the first document, and finds the prefix that the keys for
// Redis have in this document.
func (r *reader) springSection(properties []property) {
	r.section = strings.TrimSuffix(boot2, ".")
	for _, p := range properties {
		switch {
		case p.later && ofRedis(p):
			r.ignore(p, "only the first document of the file is read", true)
		case p.later:
		case ofRedis(p) && strings.Contains(p.name, "["):
			r.fault(p, "holdfast does not read keys such as name[0] and name[1]; write one key with commas: name: a, b")
		case slices.Contains([]string{"spring.config.activate.onprofile", "spring.config.activate.oncloudplatform", "spring.profiles"}, p.name):
			r.fault(p, "the document is for a profile, and holdfast does not read profiles")
		case strings.HasPrefix(p.name, boot3) && p.name != boot3+"repositories.enabled": // which Spring Boot 2 has, too
			r.section = strings.TrimSuffix(boot3, ".")
		}
	}
	r.index(slices.DeleteFunc(properties, func(p property) bool { return p.later }))
	r.checkRedisson()
	if !slices.ContainsFunc(r.rest(), ofRedis) {
		r.fault(property{}, "no key begins with spring.data.redis or spring.redis")
	}
}

// springServers reads the servers: from the keys for nodes, from a URL, or from a host and a
// port.
func (r *reader) springServers() {
	for _, key := range []string{".cluster.nodes", ".sentinel.nodes", ".masterreplica.nodes"} {
		if found, ok := r.unread[r.section+key]; ok && !found.nested && len(r.list(found)) == 0 {
			r.fault(found, "no address is given: write host:port, or remove the key")
		}
	}
	s := &r.s
	kind := Single
	p := r.get(".sentinel.nodes", ".cluster.nodes", ".masterreplica.nodes")
	byURL := r.get(".url")
	master := r.get(".sentinel.master")
	switch strings.TrimPrefix(p.name, r.section) {
	case ".sentinel.nodes":
		kind = Sentinel
		s.MasterName = r.text(master)
		s.SentinelUsername = r.text(r.get(".sentinel.username"))
		s.SentinelPassword = r.text(r.get(".sentinel.password"))
	case ".cluster.nodes":
		kind = Cluster
		s.MaxRedirects = r.number(r.get(".cluster.maxredirects"))
	case ".masterreplica.nodes":
		kind = Replicated
	}
	if master.line != 0 && kind != Sentinel {
		r.fault(master, "sentinel.nodes is missing: the addresses of the Sentinels")
	}
	if kind != Cluster {
		s.Database = r.number(r.get(".database"))
	}
	addrs := r.list(p)
	database := ""
	isURL := len(byURL.values) > 0 || byURL.nested
	switch {
	case isURL && p.line != 0:
		r.fault(byURL, "line %d has %s, and versions of Spring differ on which of the two they use; keep one of them", p.line, p.key)
	case isURL:
		p = byURL
		database = strconv.Itoa(s.Database)
		addrs = []string{r.text(byURL)}
	case p.line == 0:
		host := r.get(".host")
		port := r.get(".port")
		p = host
		if host.line == 0 {
			p = port
		}
		addrs = []string{cmp.Or(r.text(host), "localhost") + ":" + strconv.Itoa(cmp.Or(r.number(port), 6379))}
	}
	if database == "" {
		s.Username = r.text(r.get(".username"))
		s.Password = r.text(r.get(".password"))
		for i, addr := range addrs {
			addrs[i] = "redis://" + addr
		}
	}
	p.values = addrs
	p.nested = false
	r.servers(kind, p, p, database)
}

// springTime parses a time of Spring: 3s, PT3S, or 3000 for 3000 milliseconds.
func springTime(text string) (time.Duration, bool) {
	text = strings.ToLower(text)
	if d, ok := milliseconds(text); ok {
		return d, true
	}
	d, err := time.ParseDuration(strings.TrimPrefix(text, "pt"))
	return d, err == nil && regexp.MustCompile(`^([-+]?\d+(ns|us|ms|s|m|h)|pt[^uµn]*)$`).MatchString(text)
}
