package store

import (
	"crypto/tls"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// begins and ends stand around the name of a variable that Import must not replace. For Import,
// readJava reads this text as the value. The function `written` makes it a variable again.
const begins, ends = "--holdfast-", "--"

// addJava adds the settings of a Java program to the configuration, if the configuration names
// the file that has them.
func (o *Connection) addJava(env output.Environment, report *output.Reporter) error {
	for _, key := range []string{"redisson", "spring"} {
		name, ok := o.Config.Lookup(key)
		if !ok {
			continue
		}
		lookUp, remedy := env.Lookup, ""
		if o.Config.Found {
			lookUp = func(string) (string, bool) { return "", false }
			remedy = " (holdfast sets no variables in it, because it found " + o.Config.Name + " by itself: name that file with --config)"
		}
		text, err := config.ReadFileOrWait(name, report.Waiting)
		if err != nil {
			return output.UsageError("%s: %w", o.Config.Where(key), err)
		}
		if o.java, err = readJava(text, name, key == "spring", lookUp); err != nil {
			return output.UsageError("%s: %s, %w%s", o.Config.Where(key), name, err, remedy)
		}
		_, decided := o.Config.Lookup("redis.replicas")
		reportIgnored(o.java, name, report, decided || o.Replicas != "0")
		o.Config.Add(key, keysOf(o.java))
	}
	return nil
}

// readJava returns the settings in a file of Redisson or of Spring.
func readJava(text []byte, name string, spring bool, env func(string) (string, bool)) (*importconf.Settings, error) {
	if spring {
		return importconf.Spring(text, name, env)
	}
	return importconf.Redisson(text, env)
}

// Import returns the text of a configuration with the settings in a file of Redisson or
// Spring. The caller writes that text to the file `to`; Import does not. Placeholders for
// passwords stay placeholders. A warning names each setting that the configuration cannot have.
func Import(name, to string, env output.Environment, report *output.Reporter) ([]byte, error) {
	text, err := config.ReadFileOrWait(name, report.Waiting)
	if err != nil {
		return nil, output.UsageError("%w", err)
	}
	spring := filepath.Ext(name) == ".properties" || regexp.MustCompile(`(?m)^spring[.:]`).Match(text)
	s, err := readJava(text, name, spring, func(variable string) (string, bool) { return begins + variable + ends, true })
	if err != nil || strings.Contains(s.URL+s.Username, begins) {
		kept := s
		if s, err = readJava(text, name, spring, env.Lookup); err != nil {
			return nil, output.UsageError("%s, %w", name, err)
		}
		if kept != nil {
			s.Password, s.SentinelPassword = kept.Password, kept.SentinelPassword
		}
	}
	if s.Deployment == importconf.Replicated {
		return nil, output.UsageError("%s names several servers, one of which is the master, and a URL cannot express that; "+
			"write \"redisson: %[1]s\", or \"spring: %[1]s\", in holdfast.yaml", name)
	}
	reportIgnored(s, name, report, false)
	warnOfLost(s, name, report)
	values := keysOf(s)
	for key, file := range map[string]string{"redis.tls.ca": s.TLS.CACert, "redis.tls.cert": s.TLS.Cert, "redis.tls.key": s.TLS.Key} {
		if file != "" {
			values[key] = fromFolder(filepath.Dir(to), file)
		}
	}
	for key, value := range values {
		values[key] = written(value)
	}
	return yaml.Marshal(values)
}

// keysOf returns the settings in s by the keys of a configuration, without those for TLS. The
// URL is "" if s has several servers of which one is the master.
func keysOf(s *importconf.Settings) map[string]string {
	address, separator := s.URL, "?"
	for _, p := range [][2]string{{"client_name", s.ClientName}, {"sentinel_username", s.SentinelUsername}, {"sentinel_password", s.SentinelPassword}} {
		if strings.Contains(address, "?") {
			separator = "&"
		}
		if p[1] != "" && address != "" {
			address += separator + redisurl.EncodeQuery(url.Values{p[0]: {p[1]}})
		}
	}
	values := map[string]string{"redis.user": s.Username, "redis.password": s.Password}
	for key, d := range map[string]time.Duration{"redis.dial_timeout": s.DialTimeout, "redis.fair_wait": s.FairWait, "lock.ttl": s.TTL} {
		if d > 0 {
			values[key] = d.String()
		}
	}
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
	values["url"] = address
	return values
}

// fromFolder returns the name of a file relative to a folder. If one of the two names is
// absolute, the result is absolute.
func fromFolder(folder, file string) string {
	if name, err := filepath.Rel(folder, file); err == nil && !filepath.IsAbs(file) {
		return name
	}
	name, _ := filepath.Abs(file) // fails if the current folder does not exist
	return name
}

// written returns a text as it must stand in a configuration, where $ begins a variable. It
// doubles each $, and makes a variable of each name between `begins` and `ends`.
func written(text string) string {
	variable := regexp.MustCompile(begins + `(\w+)` + ends)
	return variable.ReplaceAllString(strings.ReplaceAll(text, "$", "$$"), "$${$1}")
}

// warnOfLost warns about settings for which the configuration has no key.
func warnOfLost(s *importconf.Settings, name string, report *output.Reporter) {
	switch {
	case s.TLS.Insecure:
		report.Warn("%s verifies no certificates, and the configuration cannot express that: use --insecure if you want it", name)
	case s.TLS.AnyName:
		report.Warn("%s does not verify the names in certificates, and the configuration cannot express that: set redis.tls.server_name to the name in the certificate", name)
	}
	if s.TLS.MinVersion > tls.VersionTLS12 {
		report.Warn("%s requires TLS 1.3, and the configuration cannot express that", name)
	}
}

// inKeys returns a text of package importconf with the keys of a configuration in place of the
// options of the library. A user of the command has no program in which to set an option.
func inKeys(text string) string {
	return strings.NewReplacer(
		"redishold.Options.KeyPrefix", "prefix in holdfast.yaml",
		"redishold.Options.Replicas, or --replicas: set it", "redis.replicas in holdfast.yaml: set it",
		"redishold.Options.Replicas, or --replicas", "redis.replicas in holdfast.yaml",
	).Replace(text)
}

// reportIgnored reports the keys in the file of a Java program that were not used. It warns about
// keys that matter for locks or servers, except the key about replicas if replicasSet is true.
// It reports all other keys as details.
func reportIgnored(s *importconf.Settings, name string, report *output.Reporter, replicasSet bool) {
	for _, ignored := range s.Ignored {
		text := inKeys(ignored.String())
		if decided := replicasSet && strings.Contains(text, "checkLockSyncedSlaves"); ignored.Serious && !decided {
			report.Warn("%s, %s", name, text)
		} else {
			report.Detail("%s, %s", name, text)
		}
	}
}
