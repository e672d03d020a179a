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

// Redisson reads a configuration of Redisson 3 or 4, as Config.fromYAML does, or
// the JSON of older ones. Placeholders, ${NAME} and ${NAME:-default}, are replaced
// as there: in the text, before it is taken apart. env returns the value of an
// environment variable and whether it is set; it may know the system properties
// of the Java program too. nil knows none.
//
// It is an error if there are none or several servers' configurations, no address,
// a key twice, a placeholder that is not set, a value that is none for its key, or
// certificates in a form that cannot be read here.
func Redisson(file []byte, env func(name string) (string, bool)) (*Settings, error) {
	r := newReader(env, milliseconds)
	text, unset := r.fillIn(string(file))
	section, given := r.sections(text)
	isTLS := func(e entry) bool { return strings.HasPrefix(strings.ToLower(e.name), "ssl") }
	rows := r.redissonRows()
	for _, tls := range []bool{false, true} {
		for _, e := range given {
			if slices.ContainsFunc(unset, func(u string) bool { return strings.Contains(strings.Join(e.values, " "), u) }) {
				e.doubt = "a placeholder is not set and has no default"
			}
			if isTLS(e) == tls {
				r.redissonKey(e, rows, tls)
			}
		}
		if !tls {
			kind := map[string]Deployment{"sentinelServersConfig": Sentinel, "clusterServersConfig": Cluster, "replicatedServersConfig": Replicated}[section.name]
			r.servers(cmp.Or(kind, Single), r.addrs, section, func(text string) (address, error) { return parseAddress(text, false) })
		}
	}
	r.redissonTLS()
	return r.result("Redisson")
}

// fillIn replaces placeholders as Redisson does. Those that are not set stay, and
// are returned: in a comment they do not matter.
func (r *reader) fillIn(text string) (filled string, unset []string) {
	placeholder := regexp.MustCompile(`\$\{([\w.]+)(:-.+?)?\}`)
	filled = placeholder.ReplaceAllStringFunc(text, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		value := strings.TrimPrefix(parts[2], ":-")
		ok := value != "" && !strings.Contains(value, ":-") // which Redisson takes for no default
		if own, set := r.env(parts[1]); set {
			value, ok = own, true
		}
		switch {
		case !ok:
			unset = append(unset, found)
			return found
		case strings.ContainsAny(value, "\r\n"):
			r.fault(entry{}, "the value of %s has a line break", shown(parts[1]))
		}
		return value
	})
	// What looks like a placeholder and is none, Redisson leaves as it is.
	for _, found := range regexp.MustCompile(`\$\{[^}\n]*\}`).FindAllString(text, -1) {
		if placeholder.FindString(found) != found {
			unset = append(unset, found)
		}
	}
	return filled, unset
}

// sections returns the entry of the servers' configuration, and the keys within it
// and beside it.
func (r *reader) sections(text string) (section entry, given []entry) {
	roots := r.documents([]byte(text))
	switch {
	case r.err != nil:
		return section, nil
	case len(roots) > 1:
		r.fault(entry{line: roots[1].Line}, "a second document begins; Redisson reads one")
	case len(roots) == 0:
		r.fault(entry{}, "the file is empty")
		return section, nil
	}
	var within []entry
	for _, e := range r.pairs(roots[0], "") {
		switch {
		case empty(e.node):
		case !slices.Contains(strings.Fields(allServers), e.name):
			given = append(given, e)
		case section.line != 0:
			r.fault(e, "line %d has %s already; a client has one of them", section.line, section.key)
		default:
			section = e
			within = slices.DeleteFunc(r.pairs(e.node, e.key+"."), func(e entry) bool { return empty(e.node) })
		}
	}
	if section.line == 0 {
		r.fault(entry{}, "no servers are configured: one of %s is expected", strings.ReplaceAll(allServers, " ", ", "))
	}
	return section, append(within, given...)
}

// redissonKey looks e up in the table of Redisson's keys.
func (r *reader) redissonKey(e entry, rows []row, isTLS bool) {
	section, _, inSection := strings.Cut(e.key, ".")
	if !inSection {
		section = atTop
	}
	why := "there is no such key here in Redisson 3.17 to 4.7: misspelt?"
	for _, row := range rows {
		in := strings.Fields(row.in)
		switch {
		case !row.has(e.name):
		case slices.Contains(in, section) && isTLS && !r.s.TLS.Enabled:
			r.ignore(e, "no address asks for TLS; rediss:// would", false)
			return
		case slices.Contains(in, section):
			r.set(e, row.to)
			return
		case in[0] == atTop:
			why = "it belongs to the top of the file"
		default:
			why = "it belongs into a configuration of servers, such as " + in[0]
		}
	}
	if isTLS {
		r.fault(e, "there is no such key here in Redisson 3.17 to 4.7; nothing that begins with ssl is passed over")
	}
	r.ignore(e, why, true)
}

// redissonTLS takes over certificates and what is verified. None of it may get lost.
func (r *reader) redissonTLS() {
	t := &r.s.TLS
	t.CACert, t.Cert = r.keystore(r.ca, "make a PEM file of it with keytool -list -rfc"),
		r.keystore(r.cert, "make a PEM file with certificate and key of it, with keytool -importkeystore -deststoretype PKCS12 and openssl pkcs12 -nodes")
	t.Key = t.Cert
	r.protocol()
	mode, given := r.from[&r.verifyMode]
	older, had := r.from[&r.identify]
	switch word := strings.ToUpper(r.verifyMode); {
	case word == "NONE" && t.CACert == "", !given && !r.identify && t.CACert == "":
		t.Verify = VerifyNothing
	case word == "NONE", word == "CA_ONLY", !given && !r.identify: // Redisson, too, looks at a truststore in any case
		t.Verify = VerifyAuthority
	case word != "" && word != "STRICT":
		r.fault(mode, "STRICT, CA_ONLY or NONE is expected here")
	}
	if given && had {
		r.ignore(older, "sslVerificationMode says it", false)
	}
}

// keystore returns the PEM file that e names. The keystores of Java cannot be read
// here.
func (r *reader) keystore(e entry, remedy string) string {
	file := r.pemFile(e)
	isPEM := slices.Contains([]string{".pem", ".crt", ".cer"}, strings.ToLower(path.Ext(file)))
	if file != "" && !strings.EqualFold(r.storeType, "PEM") && (r.storeType != "" || !isPEM) {
		r.fault(e, "Java's keystores cannot be read here; %s, and name that, without sslKeystoreType", remedy)
	}
	return file
}

// milliseconds reads times as Redisson has them.
func milliseconds(text string) (time.Duration, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(max(n, -1)) * time.Millisecond, err == nil && n <= int64(time.Hour/time.Millisecond)*24*366
}
