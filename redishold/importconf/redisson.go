package importconf

import (
	"crypto/tls"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Redisson reads a configuration file of the Java library Redisson: the YAML of versions
// 3 and 4, as "Config.fromYAML" does, or the JSON of older versions. Placeholders, ${NAME}
// and ${NAME:-default}, are replaced with the result of env, which returns the value of
// an environment variable and whether it is set. If the file uses system properties of
// the Java program, env must return them, too. env may be nil.
func Redisson(file []byte, env func(name string) (string, bool)) (*Settings, error) {
	r := newReader(env, milliseconds)
	r.dashDefault = true
	section := r.sections(file)
	s := &r.s
	kind := Single
	addrs := ".address"
	switch r.section {
	case "masterSlaveServersConfig":
		addrs = ".masterAddress"
	case "sentinelServersConfig":
		kind = Sentinel
		addrs = ".sentinelAddresses"
		s.MasterName = r.text(r.get(".masterName"))
		s.SentinelUsername = r.text(r.get(".sentinelUsername"))
		s.SentinelPassword = r.text(r.get(".sentinelPassword"))
	case "clusterServersConfig":
		kind = Cluster
		addrs = ".nodeAddresses"
	case "replicatedServersConfig":
		kind = Replicated
		addrs = ".nodeAddresses"
	}
	s.Username = r.text(r.get(".username", "username"))
	s.Password = r.text(r.get(".password", "password"))
	s.Database = r.number(r.get(".database"))
	s.ClientName = r.text(r.get(".clientName"))
	s.DialTimeout = r.time(r.get(".connectTimeout"), true)
	s.Timeout = r.time(r.get(".timeout"), true)
	s.Pool.Size = r.number(r.get(".connectionPoolSize", ".masterConnectionPoolSize"))
	s.Pool.MinIdle = r.number(r.get(".connectionMinimumIdleSize", ".masterConnectionMinimumIdleSize"))
	s.TTL = r.time(r.get("lockWatchdogTimeout"), false)
	s.FairWait = r.time(r.get("fairLockWaitTimeout"), false)
	r.servers(kind, r.get(addrs, ".addresses", ".address"), section, "")
	if s.TLS.Enabled {
		r.redissonTLS()
	}
	if _, given := r.keys["checkLockSyncedSlaves"]; !given && r.section != "singleServerConfig" {
		r.ignore(section, "checkLockSyncedSlaves is missing, so Redisson needs acknowledgements of replicas for each lock: set redishold.Options.Replicas, or --replicas", true)
	}
	for _, p := range r.rest() {
		if _, name, within := strings.Cut(p.name, "."); within {
			r.reportUnused(p, inServers, name)
		} else {
			r.reportUnused(p, atTop, p.name)
		}
	}
	return r.result("Redisson")
}

const allSections = "singleServerConfig sentinelServersConfig clusterServersConfig replicatedServersConfig masterSlaveServersConfig"

// sections finds the section of the servers, and indexes the keys in it and at the top of the
// file.
func (r *reader) sections(file []byte) (section property) {
	roots := append(r.documents(file), &yaml.Node{Kind: yaml.MappingNode})
	if len(roots) > 2 {
		r.fault(property{line: roots[1].Line}, "a second YAML document begins, but Redisson reads only one")
	}
	given := r.pairs(roots[0], property{})
	for _, p := range given {
		switch {
		case !slices.Contains(strings.Fields(allSections), p.name) || empty(p.node):
		case section.line != 0:
			r.fault(p, "line %d already has %s; a client can have only one of them", section.line, section.key)
		default:
			section = p
			r.section = p.name
			given = append(given, r.pairs(p.node, p)...)
		}
	}
	r.index(slices.DeleteFunc(given, func(p property) bool { return empty(p.node) || p.name == r.section }))
	if section.line == 0 {
		r.fault(property{}, "the file configures no servers; it may be empty, or have only comments: write one of %s", strings.ReplaceAll(allSections, " ", ", "))
	}
	return section
}

// redissonTLS reads the certificates and the verification mode. Each of these keys must be used
// or cause an error.
func (r *reader) redissonTLS() {
	t := &r.s.TLS
	kind, _ := r.word(r.get(".sslKeystoreType", "sslKeystoreType"))
	t.CACert = r.keystore("sslTruststore", kind)
	t.Cert = r.keystore("sslKeystore", kind)
	t.Key = t.Cert
	if protocols := r.list(r.get(".sslProtocols", "sslProtocols")); len(protocols) > 0 && !slices.Contains(protocols, "TLSv1.2") {
		t.MinVersion = tls.VersionTLS13 // the default is 1.2
	}
	mode := r.get(".sslVerificationMode", "sslVerificationMode", ".sslEnableEndpointIdentification")
	word, _ := r.word(mode)
	off := word == "none" || word == "false"
	switch {
	case word == "ca_only", off && t.CACert != "": // Redisson also verifies against a truststore in this case
		t.AnyName = true
	case off:
		t.Insecure = true
	case !slices.Contains([]string{"", "strict", "true"}, word):
		r.fault(mode, "STRICT, CA_ONLY or NONE is expected here")
	}
}

// keystore returns the name of the PEM file that a key names by its path or by a file: URL. A
// keystore of Java is an error. The parameter `kind` is the type of the keystores, or "" if the
// type is unknown.
func (r *reader) keystore(key, kind string) string {
	p := r.get("."+key, key)
	text := r.text(p)
	name := regexp.MustCompile(`^file:(//(/))?`).ReplaceAllString(text, "$2")
	isPEM := slices.Contains([]string{".pem", ".crt", ".cer"}, strings.ToLower(path.Ext(name)))
	switch {
	case text == "":
	case regexp.MustCompile(`^(//|\w{2,}:|$)`).MatchString(name):
		r.fault(p, "holdfast can read only files here: write a path or file:/path, and no class path of Java")
	case kind != "pem" && (kind != "" || !isPEM):
		r.fault(p, "Java's keystores cannot be read here; make PEM files of them with keytool and openssl pkcs12 -nodes, and name those, without sslKeystoreType")
	}
	return name
}

// milliseconds parses a time of Redisson.
func milliseconds(text string) (time.Duration, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(max(n, -1)) * time.Millisecond, err == nil && n <= int64(time.Hour/time.Millisecond)*24*366
}
