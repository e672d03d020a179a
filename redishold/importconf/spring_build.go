package importconf

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// build makes settings of the keys.
func (r *springReader) build() error {
	s := &r.settings
	on, err := r.encrypted()
	if err != nil {
		return err
	}
	s.TLS.Enabled = on
	for _, step := range []func() error{r.retyped, r.servers, r.times, r.pool, r.tls} {
		if err := step(); err != nil {
			return err
		}
	}
	if s.ClientName, err = r.given.text("clientname"); err != nil {
		return err
	}
	r.given.leave(s, "another key takes its place, or there are no servers of that kind", func(string) bool { return true })
	return nil
}

// encrypted reports whether connections shall be encrypted; the URL may say so,
// too.
func (r *springReader) encrypted() (bool, error) {
	_, bundle := r.given["ssl.bundle"]
	return r.given.yes(bundle, "ssl.enabled", "ssl")
}

// retyped refuses credentials that Spring takes for numbers or truths.
func (r *springReader) retyped() error {
	for _, name := range []string{"username", "password", "sentinel.username", "sentinel.password"} {
		if e := r.given[name]; e.typed {
			return e.fault("Spring makes something else of this word; put it in quotes")
		}
	}
	return nil
}

// servers finds out where the servers are. As in Spring, Sentinels go before a
// cluster, and that before a single server.
func (r *springReader) servers() error {
	kind, nodes := Single, ""
	for _, k := range []struct {
		kind  Deployment
		nodes string
	}{{Sentinel, "sentinel.nodes"}, {Cluster, "cluster.nodes"}, {Replicated, "masterreplica.nodes"}} {
		if e, ok := r.given[k.nodes]; ok && nodes != "" {
			return e.fault("line %d has %s already; a client has one of them", r.given[nodes].line, r.given[nodes].key)
		} else if ok {
			kind, nodes = k.kind, k.nodes
		}
	}
	if e, ok := r.given["sentinel.master"]; ok && kind != Sentinel {
		return e.fault("sentinel.nodes is missing: the addresses of the Sentinels")
	}
	if kind == Single {
		return r.single()
	}
	if e, ok := r.given["url"]; ok {
		return e.fault("line %d has %s, and versions of Spring differ on which of them counts; keep one of them", r.given[nodes].line, r.given[nodes].key)
	}
	return r.several(kind, nodes)
}

// several fills in the nodes of a deployment.
func (r *springReader) several(kind Deployment, nodes string) error {
	s := &r.settings
	if err := r.database(kind); err != nil {
		return err
	}
	e, _, err := r.given.take(nodes)
	if err != nil {
		return err
	}
	addrs, err := e.list()
	switch {
	case err != nil:
		return err
	case len(addrs) == 0:
		return e.fault("it names no node")
	}
	servers := make([]address, len(addrs))
	for i, text := range addrs {
		if servers[i], err = parseAddress(text, true, url.PathUnescape); err != nil {
			return e.fault("%v", err)
		}
		if a := servers[i]; a.hasUser || a.rest != "" || a.path != "" {
			return e.fault("nodes are host:port, with commas between")
		}
		servers[i].from = e
	}
	if kind == Sentinel {
		if err := r.sentinels(e); err != nil {
			return err
		}
	}
	if kind == Cluster {
		if s.MaxRedirects, err = r.given.number("cluster.maxredirects"); err != nil {
			return err
		}
	}
	if s.Username, s.Password, err = r.given.credentials(nil, [2]string{"username", "password"}); err != nil {
		return err
	}
	return s.locate(kind, servers)
}

// database reads the number of the database. For a cluster, Spring and Redisson's
// starter (4.7 still) do not pass it on: the Java programs are in database 0.
func (r *springReader) database(kind Deployment) error {
	s, e := &r.settings, r.given["database"]
	var err error
	if s.Database, err = r.given.number("database"); err == nil && kind == Cluster && s.Database != 0 {
		s.Database = 0
		s.Ignored = append(s.Ignored, e.ignored("Spring uses none with a cluster: its programs are in database 0"))
	}
	return err
}

func (r *springReader) sentinels(nodes entry) error {
	s := &r.settings
	var err error
	if s.MasterName, err = r.given.text("sentinel.master"); err != nil {
		return err
	}
	if s.MasterName == "" {
		return nodes.fault("sentinel.master is missing: the name by which the Sentinels know the master")
	}
	s.SentinelUsername, s.SentinelPassword, err = r.given.credentials(nil, [2]string{"sentinel.username", "sentinel.password"})
	return err
}

// single fills in one server, which a URL or host and port name.
func (r *springReader) single() error {
	s := &r.settings
	if e, ok, err := r.given.take("url"); err != nil {
		return err
	} else if ok && len(e.values) > 0 {
		return r.byURL(e)
	}
	e := r.given["host"]
	host, err := r.given.text("host")
	if err != nil {
		return err
	}
	if host == "" {
		host, e = "localhost", r.given["port"]
	}
	port, err := r.given.number("port")
	if err != nil {
		return err
	}
	if port == 0 {
		port = 6379
	}
	var a address
	if a.hostport, err = hostport(host + ":" + strconv.Itoa(port)); err != nil {
		return e.fault("%v", err)
	}
	if s.Database, err = r.given.number("database"); err != nil {
		return err
	}
	if s.Username, s.Password, err = r.given.credentials(nil, [2]string{"username", "password"}); err != nil {
		return err
	}
	return s.locate(Single, []address{a})
}

// byURL fills in the server that a URL names. It goes before the other keys, which
// are left and so get listed; but for the database, of which versions of Spring
// read either the one or the other.
func (r *springReader) byURL(e entry) error {
	s := &r.settings
	text, err := e.text()
	if err != nil {
		return err
	}
	a, err := parseSpringURL(text)
	if err != nil {
		return e.fault("%v", err)
	}
	if encrypted(a.password) {
		return e.fault("its password is encrypted, and what decrypts it in Java is not here")
	}
	path := strings.TrimPrefix(a.rest, "/")
	if path != "" {
		if s.Database, err = strconv.Atoi(path); err != nil || s.Database < 0 {
			return e.fault("behind the port stands the number of a database, and nothing else")
		}
	}
	database, err := r.given.number("database")
	if err != nil {
		return err
	}
	if database != s.Database {
		return e.fault("Spring Boot before 3.5 takes the database from the key database, newer ones from the URL: give both, and the same")
	}
	a.from = e
	s.Username, s.Password = a.user, a.password
	return s.locate(Single, []address{a})
}

// parseSpringURL reads a URL, in which one word before the host is a password, and
// the port may be missing.
func parseSpringURL(text string) (address, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if found {
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		user, host, hasUser := strings.Cut(rest[:end], "@")
		if !hasUser {
			user, host = "", user
		} else if !strings.Contains(user, ":") {
			user = ":" + user
		}
		if strings.LastIndexByte(host, ':') <= strings.LastIndexByte(host, ']') && host != "" {
			host += ":6379"
		}
		if hasUser {
			host = user + "@" + host
		}
		text = scheme + "://" + host + rest[end:]
	}
	return parseAddress(text, false, url.PathUnescape)
}

func (r *springReader) times() error {
	s := &r.settings
	const off = "0 or less switches the limit off, which cannot be done here; the default stands"
	var err error
	if s.DialTimeout, err = r.given.duration(s, springDuration, off, "connecttimeout"); err != nil {
		return err
	}
	s.Timeout, err = r.given.duration(s, springDuration, off, "timeout")
	return err
}

// pool takes over the pool of whichever client has one configured.
func (r *springReader) pool() error {
	s := &r.settings
	for _, client := range []string{"lettuce.pool.", "jedis.pool."} {
		enabled, err := r.given.yes(true, client+"enabled")
		if err != nil {
			return err
		}
		if !enabled {
			r.given.leave(s, "the pool is not enabled", func(name string) bool { return strings.HasPrefix(name, client) })
		}
	}
	if err := r.poolSizes(); err != nil {
		return err
	}
	var err error
	s.Pool.Wait, err = r.given.duration(s, springDuration, "waiting for ever cannot be done here; the default stands", "lettuce.pool.maxwait", "jedis.pool.maxwait")
	return err
}

func (r *springReader) poolSizes() error {
	p := &r.settings.Pool
	for _, f := range []struct {
		field *int
		key   string
	}{{&p.Size, "maxactive"}, {&p.MaxIdle, "maxidle"}, {&p.MinIdle, "minidle"}} {
		for _, client := range []string{"lettuce.pool.", "jedis.pool."} {
			if e := r.given[client+f.key]; len(e.values) == 1 && strings.HasPrefix(strings.TrimSpace(e.values[0]), "-") {
				delete(r.given, client+f.key)
				r.ignore(e, "a number below 0 is no limit, which is the default", false)
			}
		}
		var err error
		if *f.field, err = r.given.number("lettuce.pool."+f.key, "jedis.pool."+f.key); err != nil {
			return err
		}
	}
	return nil
}

// springDuration reads 3000, which are milliseconds, 3s and PT3S.
func springDuration(text string) (time.Duration, bool) {
	if parts := regexp.MustCompile(`^([-+]?\d+)(d|D)?$`).FindStringSubmatch(text); parts != nil {
		text = strings.TrimPrefix(parts[1], "+")
		if parts[2] == "" {
			return milliseconds(text)
		}
		days, err := strconv.Atoi(text)
		return time.Duration(max(days, -1)) * 24 * time.Hour, err == nil && days <= 366
	}
	if parts := regexp.MustCompile(`^([-+]?)[pP](?:(\d+)[dD])?(?:[tT](.+))?$`).FindStringSubmatch(text); parts != nil {
		return isoDuration(parts[1] == "-", parts[2], parts[3])
	}
	if !regexp.MustCompile(`^[-+]?\d+(?i:ns|us|ms|s|m|h)$`).MatchString(text) {
		return 0, false
	}
	d, err := time.ParseDuration(strings.ToLower(text))
	return d, err == nil
}

func isoDuration(minus bool, days, rest string) (time.Duration, bool) {
	if days == "" && rest == "" || strings.ContainsAny(rest, "uµnN") {
		return 0, false
	}
	n, err := strconv.Atoi("0" + days)
	if err != nil || n > 366 {
		return 0, false
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest != "" {
		more, err := time.ParseDuration(strings.ToLower(rest))
		if err != nil {
			return 0, false
		}
		d += more
	}
	if minus {
		d = -d
	}
	return d, true
}
