package store

import (
	"crypto/tls"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/redishold/importconf"
)

const maxJava = 1 << 20 // bytes of a file of a Java program

// begins and ends stand around the name of a placeholder that must stay a placeholder, while
// the file is read.
const begins, ends = "--holdfast-", "--"

// readJava returns the settings in a file of Redisson or of Spring.
func readJava(text []byte, name string, spring bool, env func(string) (string, bool)) (*importconf.Settings, error) {
	if spring {
		return importconf.Spring(text, name, env)
	}
	return importconf.Redisson(text, env)
}

// Import returns the text of a configuration with the settings in a file of Redisson or
// Spring. The parameter to names the file that the text is for; Import does not write it.
// Placeholders of passwords stay placeholders. A warning names each setting that the
// configuration cannot have.
func Import(name, to string, env output.Environment, report *output.Reporter) ([]byte, error) {
	text, err := config.ReadFile(name, maxJava)
	if err != nil {
		return nil, output.UsageError("%w", err)
	}
	spring := filepath.Ext(name) == ".properties" || regexp.MustCompile(`(?m)^spring[.:]`).Match(text)
	kept, err := readJava(text, name, spring, func(variable string) (string, bool) { return begins + variable + ends, true })
	s := kept
	if err != nil || strings.Contains(kept.URL+kept.Username, begins) {
		if s, err = readJava(text, name, spring, env.Lookup); err != nil {
			return nil, output.UsageError("%s, %w", name, err)
		}
	}
	if s.Deployment == importconf.Replicated {
		return nil, output.UsageError("%s names several servers, of which one is the master: no URL says that; "+
			"say \"redisson: %[1]s\", or \"spring: %[1]s\", in holdfast.yaml", name)
	}
	reportIgnored(s, name, report, func(importconf.Ignored) bool { return false })
	warnOfLost(s, name, report)
	return config.Format(valuesOf(s, kept, filepath.Dir(to)))
}

// valuesOf returns the settings in s by the keys of a configuration in a folder. Passwords
// are those of kept if it is not nil, because kept has placeholders in their place.
func valuesOf(s, kept *importconf.Settings, folder string) map[string]string {
	values := map[string]string{"url": written(s.URL), "redis.user": written(s.Username), "redis.password": written(s.Password)}
	sentinel := map[string]string{"sentinel_username": s.SentinelUsername, "sentinel_password": s.SentinelPassword}
	if kept != nil {
		values["redis.password"] = written(kept.Password)
		sentinel["sentinel_password"] = kept.SentinelPassword
	}
	separator := "?"
	for _, parameter := range []string{"sentinel_username", "sentinel_password"} {
		if text := sentinel[parameter]; text != "" {
			values["url"] += separator + parameter + "=" + written(url.QueryEscape(text))
			separator = "&"
		}
	}
	for key, file := range map[string]string{"redis.tls.ca": s.TLS.CACert, "redis.tls.cert": s.TLS.Cert, "redis.tls.key": s.TLS.Key} {
		values[key] = written(fromFolder(folder, file))
	}
	for key, d := range map[string]time.Duration{"redis.dial_timeout": s.DialTimeout, "redis.fair_wait": s.FairWait, "lock.ttl": s.TTL} {
		if d > 0 {
			values[key] = d.String()
		}
	}
	for key, value := range values {
		if value == "" {
			delete(values, key)
		}
	}
	return values
}

// fromFolder returns the name of a file relative to the folder of a configuration.
func fromFolder(folder, file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	if name, err := filepath.Rel(folder, file); err == nil {
		return name
	}
	name, _ := filepath.Abs(file) // fails if the current folder does not exist
	return name
}

// written returns a text in the form that a configuration needs, in which $ begins a
// variable. Placeholders become variables.
func written(text string) string {
	variable := regexp.MustCompile(begins + `(\w+)` + ends)
	return variable.ReplaceAllString(strings.ReplaceAll(text, "$", "$$"), "$${$1}")
}

// warnOfLost warns about settings for which the configuration has no key.
func warnOfLost(s *importconf.Settings, name string, report *output.Reporter) {
	switch {
	case s.TLS.Insecure:
		report.Warn("%s verifies no certificates, and the configuration cannot say that: use --insecure if it is meant", name)
	case s.TLS.AnyName:
		report.Warn("%s verifies no names in certificates, and the configuration cannot say that: redis.tls.server_name names the one to expect", name)
	}
	if s.TLS.MinVersion > tls.VersionTLS12 {
		report.Warn("%s wants TLS 1.3, and the configuration cannot say that", name)
	}
	if s.ClientName != "" {
		report.Detail("%s: clientName has no key in the configuration", name)
	}
}

// reportIgnored reports the keys of a Java program that were not used. It warns about a key
// that matters for locks or servers, unless decided returns true for it. It reports the
// others as details.
func reportIgnored(s *importconf.Settings, name string, report *output.Reporter, decided func(importconf.Ignored) bool) {
	for _, ignored := range s.Ignored {
		if ignored.Serious && !decided(ignored) {
			report.Warn("%s, %s", name, ignored)
		} else {
			report.Detail("%s, %s", name, ignored)
		}
	}
}
