package importconf

import (
	"cmp"
	"errors"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Spring reads what an application.properties or application.yaml of Spring Boot 2
// to 4 says of the server, the login, the pool, TLS and the times:
// spring.data.redis.*, spring.redis.* and, of spring.ssl.bundle.*, the bundle that
// they name. Other keys are of other things and not listed. The ending of name
// tells the format.
//
// Placeholders, ${NAME} and ${NAME:default}, are looked up with env, also in the
// spelling of environment variables, then in the file. nil knows nothing.
// Variables that would override a key of the file, SPRING_DATA_REDIS_HOST for
// example, and other files are not looked at; documents that are for a profile are
// listed as ignored.
//
// It is an error if there is no key of Redis, a key twice in a document, a
// placeholder that is not set, a value that is none for its key, a database beside
// a URL that does not name the same, certificates in a form that cannot be read
// here, or if Redisson's starter is configured: Redisson reads what it has.
func Spring(file []byte, name string, env func(name string) (string, bool)) (*Settings, error) {
	r := newReader(env, springTime)
	switch strings.ToLower(path.Ext(name)) {
	case ".properties":
		r.spring(r.properties(file))
	case ".yaml", ".yml":
		r.spring(r.flatYAML(file))
	default:
		r.fault(entry{}, "the name of the file ends neither with .properties nor with .yaml or .yml")
	}
	return r.result("Spring")
}

const (
	newer   = "spring.data.redis." // Spring Boot 3 and 4
	older   = "spring.redis."      // Spring Boot 2
	bundles = "spring.ssl.bundle."
)

func ofRedis(name string) bool {
	return strings.HasPrefix(name, newer) || strings.HasPrefix(name, older)
}

// canonical makes one spelling of all that Spring takes for the same key.
func canonical(key string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
}

func (r *reader) spring(documents []document) {
	r.merge(documents)
	rows, prefix, found := r.springRows(), older, false
	for name := range r.keys {
		found = found || ofRedis(name)
		if strings.HasPrefix(name, newer) && name != newer+"repositories.enabled" { // which Spring Boot 2 has, too
			prefix = newer
		}
	}
	if !found {
		r.fault(entry{}, "no key begins with spring.data.redis or spring.redis")
	}
	for _, e := range r.keys.inOrder() {
		name, ours := strings.CutPrefix(e.name, prefix)
		switch {
		case e.name == "spring.config.import":
			r.ignore(e, "other files are not read: what they say of Redis is not here", true)
		case strings.HasPrefix(e.name, "spring.redis.redisson."):
			r.fault(e, "this is Redisson's: read the file that it names, or its text in a file of its own, as one of Redisson")
		case ours && r.poolOff(prefix, name):
			r.ignore(e, "the pool is not enabled", false)
		case ours:
			r.springKey(e, name, rows)
		case ofRedis(e.name):
			r.ignore(e, "keys that begin with spring.data.redis are there too, and Spring Boot 3 reads those only", true)
		}
	}
	_, bundled := r.from[&r.bundle] // an empty one, too, switches TLS on
	r.s.TLS.Enabled = r.encrypt || bundled && len(r.from[&r.encrypt].values) == 0
	r.springServers(prefix)
	r.springTLS(rows)
}

// poolOff reports whether a key is of a pool that is switched off.
func (r *reader) poolOff(prefix, name string) bool {
	client, key, ofPool := strings.Cut(name, ".pool.")
	e := r.keys[prefix+client+".pool.enabled"]
	if !ofPool || key == "enabled" || len(e.values) == 0 {
		return false
	}
	on := true
	r.value(e, r.text(r.expand(e, &on)), &on)
	return !on
}

// merge adds each document to those before it, whose keys it overrides. One that is
// for a profile does not apply.
func (r *reader) merge(documents []document) {
	r.keys = make(document)
	for _, d := range documents {
		profile := len(d["spring.config.activate.onprofile"].key+d["spring.config.activate.oncloudplatform"].key+d["spring.profiles"].key) > 0
		for name, e := range d {
			before, twice := r.keys[name]
			switch {
			case profile && ofRedis(name):
				r.ignore(e, "its part of the file is for a profile, and profiles are not looked at", true)
			case twice && ofRedis(name):
				r.ignore(before, "line "+strconv.Itoa(e.line)+" says it again", false)
			}
			if !profile {
				r.keys[name] = e
			}
		}
	}
}

// springKey looks a key up in the table of Spring's keys.
func (r *reader) springKey(e entry, name string, rows []row) {
	i := slices.IndexFunc(rows, func(row row) bool { return row.has(name) })
	switch {
	case i >= 0:
		r.set(r.expand(e, rows[i].to), rows[i].to)
	case strings.HasPrefix(name, "ssl") || strings.HasPrefix(name, "bundle."):
		r.fault(e, "there is no such key in Spring Boot 2.7 to 4.0; nothing of TLS is passed over")
	default:
		r.ignore(e, "there is no such key in Spring Boot 2.7 to 4.0: misspelt?", true)
	}
}

// springServers finds out where the servers are: nodes go before a URL, which goes
// before host and port.
func (r *reader) springServers(prefix string) {
	s, e, parse := &r.s, r.addrs, parseNode
	kind := map[string]Deployment{"sentinel.nodes": Sentinel, "cluster.nodes": Cluster, "masterreplica.nodes": Replicated}[strings.TrimPrefix(e.name, prefix)]
	byURL, database := len(r.url.values) > 0, r.from[&s.Database]
	if kind != Sentinel {
		if e, ok := r.from[&s.MasterName]; ok {
			r.fault(e, "sentinel.nodes is missing: the addresses of the Sentinels")
		}
		r.drop(&s.SentinelUsername, secret{&s.SentinelPassword})
		s.SentinelUsername, s.SentinelPassword = "", ""
	}
	if kind != Cluster {
		r.drop(&s.MaxRedirects)
		s.MaxRedirects = 0
	} else if s.Database != 0 {
		s.Database = 0 // Redisson's starter (4.7 still) does not pass it on either
		r.ignore(database, "Spring uses none with a cluster: its programs are in database 0", false)
	}
	switch {
	case byURL && kind != "":
		r.fault(r.url, "line %d has %s, and versions of Spring differ on which of them counts; keep one of them", e.line, e.key)
	case byURL:
		r.drop(&r.host, &r.port, &s.Username, secret{&s.Password})
		s.Username, s.Password, e, parse = "", "", r.url, r.parseURL
	case kind != "":
		r.drop(&r.host, &r.port)
	default:
		if e = r.from[&r.port]; r.host != "" {
			e = r.from[&r.host]
		}
		e.values = []string{cmp.Or(r.host, "localhost") + ":" + strconv.Itoa(cmp.Or(r.port, 6379))}
	}
	r.servers(cmp.Or(kind, Single), e, e, parse)
}

// drop lists keys that have no meaning beside others.
func (r *reader) drop(targets ...any) {
	for _, to := range targets {
		if e, ok := r.from[to]; ok {
			r.ignore(e, "another key takes its place, or there are no servers of that kind", false)
		}
	}
}

func parseNode(text string) (a address, err error) {
	a.hostport, err = hostport(text)
	return a, err
}

// parseURL reads a URL of Spring, in which the database may stand.
func (r *reader) parseURL(text string) (address, error) {
	a, err := parseAddress(text, true)
	named, err2 := strconv.ParseUint("0"+strings.TrimPrefix(a.rest, "/"), 10, 31)
	switch {
	case err != nil:
		return a, err
	case err2 != nil:
		return a, errors.New("behind the port stands the number of a database, and nothing else")
	case int(named) != r.s.Database:
		return a, errors.New("Spring Boot before 3.5 takes the database from the key database, newer ones from the URL: give both, and the same")
	}
	return a, nil
}

// springTLS takes over the bundle of certificates that the keys name. None of it may
// get lost.
func (r *reader) springTLS(rows []row) {
	by, t := r.from[&r.bundle], &r.s.TLS
	switch {
	case r.bundle == "":
		return
	case !t.Enabled:
		r.ignore(by, "TLS is not enabled", false)
		return
	}
	found := false
	for _, e := range r.keys.inOrder() {
		name, ours := strings.CutPrefix(e.name, bundles+"pem."+canonical(r.bundle)+".")
		if ours {
			r.springKey(e, "bundle."+name, rows)
		} else if strings.HasPrefix(e.name, bundles+"jks."+canonical(r.bundle)+".") {
			r.fault(e, "Java's keystores cannot be read here; make PEM files of them with keytool and openssl, and a bundle under spring.ssl.bundle.pem")
		}
		found = found || ours
	}
	if !found {
		r.fault(by, "the bundle that it names is not in this file")
	}
	t.CACert, t.Cert, t.Key = r.pemFile(r.ca), r.pemFile(r.cert), r.pemFile(r.private)
	if t.Cert == "" && t.Key != "" {
		r.fault(r.private, "keystore.certificate, which belongs to it, is missing")
	}
	t.Key = cmp.Or(t.Key, t.Cert) // one file can hold both
	r.protocol()
}

// springTime reads 3000, which are milliseconds, 3s and PT3S.
func springTime(text string) (time.Duration, bool) {
	text = strings.ToLower(text)
	if regexp.MustCompile(`^[-+]?\d+$`).MatchString(text) {
		return milliseconds(text)
	}
	d, err := time.ParseDuration(strings.TrimPrefix(text, "pt"))
	return d, err == nil && regexp.MustCompile(`^([-+]?\d+(ns|us|ms|s|m|h)|pt[^uµn]*)$`).MatchString(text)
}
