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

// Spring reads the keys spring.data.redis.* and spring.redis.* of the first document of
// an application.properties or application.yaml of Spring Boot 2 to 4: the server, the
// login, the pool, TLS and the timeouts. Other keys are not listed in Ignored. The ending
// of name decides the format.
//
// Placeholders, ${NAME} and ${NAME:default}, are replaced with the result of env, also in
// the spelling of environment variables, or with a key of the file. env may be nil.
// Variables that override a key of the file, and other files, are not read.
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
	var entries []entry
	switch strings.ToLower(path.Ext(name)) {
	case ".properties":
		entries = r.properties(file)
	case ".yaml", ".yml":
		for _, root := range r.documents(file) {
			entries = append(entries, r.flatten(root, entry{further: len(entries) > 0})...)
		}
	default:
		r.fault(entry{}, "the name of the file ends neither with .properties nor with .yaml or .yml")
	}
	r.springSection(entries)
	s := &r.s
	s.ClientName = r.text(r.get(".clientname"))
	s.DialTimeout, s.Timeout = r.time(r.get(".connecttimeout"), true), r.time(r.get(".timeout"), true)
	pool := func(key string) entry { return r.get(".lettuce.pool."+key, ".jedis.pool."+key) }
	s.Pool = Pool{Size: r.number(pool("maxactive")), MinIdle: r.number(pool("minidle")), MaxIdle: r.number(pool("maxidle")), Wait: r.time(pool("maxwait"), true)}
	ssl, bundle := r.get(".ssl", ".ssl.enabled"), r.get(".ssl.bundle")
	s.TLS.Enabled = r.yes(ssl, bundle.line != 0) // an empty bundle, too, switches TLS on
	if bundle.line != 0 {
		r.ignore(bundle, "the certificates of a bundle are not read: set CACert, Cert and Key of Settings.TLS", s.TLS.Enabled)
	}
	r.springServers()
	for _, e := range r.rest() {
		name, ours := strings.CutPrefix(e.name, r.section+".")
		switch {
		case e.name == "spring.config.import":
			r.ignore(e, "other files are not read: what they say of Redis is not here", true)
		case e.name == "spring.profiles.active", e.name == "spring.profiles.include":
			r.ignore(e, "files of profiles are not read: what they say of Redis is not here", true)
		case ours:
			r.leave(e, "spring", name)
		case ofRedis(e):
			r.ignore(e, "keys that begin with spring.data.redis are there too, and Spring Boot 3 reads those only", true)
		}
	}
	return r.result("Spring")
}

// forRedisson looks for keys that Redisson reads: those of its starter go before those of
// Spring, and of others only the program knows what it does with them.
func (r *reader) forRedisson() {
	spring := slices.ContainsFunc(r.rest(), ofRedis)
	for _, e := range r.rest() {
		starter := strings.HasPrefix(e.name, older+"redisson.") || strings.HasPrefix(e.name, newer+"redisson.")
		if !starter && !strings.HasPrefix(e.name, "redisson.") && !strings.HasPrefix(e.name, "spring.redisson.") {
			continue
		}
		says, remedy := "as this key says", "write it into a file of Redisson, and read that"
		switch e.name[strings.LastIndexByte(e.name, '.'):] {
		case ".file":
			says, remedy = "as the file says that this key names", "read that file as one of Redisson"
		case ".config":
			says, remedy = "as the text of this key says", "save that text in a file, and read it as one of Redisson"
		}
		if starter || !spring {
			r.fault(e, "Redisson connects %s: %s", says, remedy)
		} else {
			r.ignore(e, "a program with Redisson may connect "+says+", and not as the keys that were read: "+remedy, true)
		}
		return
	}
}

const (
	newer = "spring.data.redis." // Spring Boot 3 and 4
	older = "spring.redis."      // Spring Boot 2
)

func ofRedis(e entry) bool {
	return strings.HasPrefix(e.name, newer) || strings.HasPrefix(e.name, older)
}

// canonical makes one spelling of all that Spring takes for the same key.
func canonical(key string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
}

// springSection files the keys of the first document, and finds out what those of Redis
// begin with.
func (r *reader) springSection(entries []entry) {
	r.section = strings.TrimSuffix(older, ".")
	for _, e := range entries {
		switch {
		case e.further && ofRedis(e):
			r.ignore(e, "only the first document of the file is read", true)
		case e.further:
		case ofRedis(e) && strings.Contains(e.name, "["):
			r.fault(e, "elements of a list that have keys of their own are not read; write them behind one key, with commas between")
		case slices.Contains([]string{"spring.config.activate.onprofile", "spring.config.activate.oncloudplatform", "spring.profiles"}, e.name):
			r.fault(e, "the document is for a profile, and profiles are not looked at")
		case strings.HasPrefix(e.name, newer) && e.name != newer+"repositories.enabled": // which Spring Boot 2 has, too
			r.section = strings.TrimSuffix(newer, ".")
		}
	}
	r.index(slices.DeleteFunc(entries, func(e entry) bool { return e.further }))
	r.forRedisson()
	if !slices.ContainsFunc(r.rest(), ofRedis) {
		r.fault(entry{}, "no key begins with spring.data.redis or spring.redis")
	}
}

// springServers finds out where the servers are: nodes, a URL, or host and port.
func (r *reader) springServers() {
	s, kind, database := &r.s, Single, ""
	for _, key := range []string{".cluster.nodes", ".sentinel.nodes", ".masterreplica.nodes"} {
		if found, ok := r.left[r.section+key]; ok && !found.odd && len(r.list(found)) == 0 {
			r.fault(found, "no address is given: write host:port, or remove the key")
		}
	}
	e, byURL, master := r.get(".sentinel.nodes", ".cluster.nodes", ".masterreplica.nodes"), r.get(".url"), r.get(".sentinel.master")
	switch nodes := strings.TrimPrefix(e.name, r.section); nodes {
	case ".sentinel.nodes":
		kind, s.MasterName = Sentinel, r.text(master)
		s.SentinelUsername, s.SentinelPassword = r.text(r.get(".sentinel.username")), r.text(r.get(".sentinel.password"))
	case ".cluster.nodes":
		kind, s.MaxRedirects = Cluster, r.number(r.get(".cluster.maxredirects"))
	case ".masterreplica.nodes":
		kind = Replicated
	}
	if master.line != 0 && kind != Sentinel {
		r.fault(master, "sentinel.nodes is missing: the addresses of the Sentinels")
	}
	if kind != Cluster {
		s.Database = r.number(r.get(".database"))
	}
	addrs := r.list(e)
	switch isURL := len(byURL.values) > 0 || byURL.odd; {
	case isURL && e.line != 0:
		r.fault(byURL, "line %d has %s, and versions of Spring differ on which of them counts; keep one of them", e.line, e.key)
	case isURL:
		e, database, addrs = byURL, strconv.Itoa(s.Database), []string{r.text(byURL)}
	case e.line == 0:
		host, port := r.get(".host"), r.get(".port")
		if e = host; host.line == 0 {
			e = port
		}
		addrs = []string{cmp.Or(r.text(host), "localhost") + ":" + strconv.Itoa(cmp.Or(r.number(port), 6379))}
	}
	if database == "" {
		s.Username, s.Password = r.text(r.get(".username")), r.text(r.get(".password"))
		for i, addr := range addrs {
			addrs[i] = "redis://" + addr
		}
	}
	e.values, e.odd = addrs, false
	r.servers(kind, e, e, database)
}

// springTime reads 3000, which are milliseconds, 3s and PT3S.
func springTime(text string) (time.Duration, bool) {
	text = strings.ToLower(text)
	if d, ok := milliseconds(text); ok {
		return d, true
	}
	d, err := time.ParseDuration(strings.TrimPrefix(text, "pt"))
	return d, err == nil && regexp.MustCompile(`^([-+]?\d+(ns|us|ms|s|m|h)|pt[^uµn]*)$`).MatchString(text)
}
