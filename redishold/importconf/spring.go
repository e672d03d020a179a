package importconf

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Spring reads an application.properties or application.yaml of Spring Boot 2 to
// 4: spring.data.redis.*, spring.redis.* and, of spring.ssl.bundle.*, the bundle
// that they name. Other keys are of other things and not listed. The ending of
// name tells the format. If Redisson's starter is configured with
// spring.redis.redisson.config, the settings are those.
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
// here, or if the settings are in another file (spring.redis.redisson.file): that
// one is for Redisson.
func Spring(file []byte, name string, env func(name string) (string, bool)) (*Settings, error) {
	var properties []document
	var err error
	switch strings.ToLower(path.Ext(name)) {
	case ".properties":
		properties, err = readProperties(file)
	case ".yaml", ".yml":
		properties, err = readYAML(file)
	default:
		err = errors.New("the name of the file ends neither with .properties nor with .yaml or .yml")
	}
	if err != nil {
		return nil, fmt.Errorf("configuration of Spring: %w", err)
	}
	r := springReader{keys: make(map[string]entry), given: make(given), env: env, left: maxLookups}
	if err := r.read(properties); err != nil {
		return nil, fmt.Errorf("configuration of Spring: %w", err)
	}
	return r.settings.finish(), nil
}

// document is one of a file: its keys, in the form that canonical makes.
type document map[string]entry

// canonical makes one spelling of all that Spring takes for the same key.
func canonical(key string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
}

const (
	newer   = "spring.data.redis." // Spring Boot 3 and 4
	older   = "spring.redis."      // Spring Boot 2
	starter = "spring.redis.redisson."
	bundles = "spring.ssl.bundle."
)

type springReader struct {
	settings Settings
	keys     map[string]entry // every key of the documents that apply
	given    given            // those of use, without what they begin with
	env      func(string) (string, bool)
	left     int // lookups of placeholders
}

func (r *springReader) ignore(e entry, why string, serious bool) {
	i := e.ignored(why)
	i.Serious = serious
	r.settings.Ignored = append(r.settings.Ignored, i)
}

func (r *springReader) read(documents []document) error {
	for _, d := range documents {
		r.merge(d)
	}
	prefix := r.prefix()
	if prefix == "" {
		return fmt.Errorf("no key begins with %s or %s", strings.TrimSuffix(newer, "."), strings.TrimSuffix(older, "."))
	}
	if e, ok := r.keys["spring.config.import"]; ok {
		r.ignore(e, "other files are not read: what they say of Redis is not here", true)
	}
	if done, err := r.redisson(); done || err != nil {
		return err
	}
	for _, key := range sorted(r.keys) {
		e := r.keys[key]
		name, ours := strings.CutPrefix(key, prefix)
		switch {
		case ours && springUses(name):
			r.given[name] = e
		case ours:
			why, serious := springIgnores(name), false
			if why == "" && strings.HasPrefix(name, "ssl") {
				return e.fault("there is no such key in Spring Boot 2.7 to 4.0; nothing that begins with ssl is passed over")
			}
			if why == "" {
				why, serious = "there is no such key in Spring Boot 2.7 to 4.0: misspelt?", true
			}
			r.ignore(e, why, serious)
		case ofRedis(key):
			r.ignore(e, "keys that begin with "+strings.TrimSuffix(newer, ".")+" are there too, and Spring Boot 3 reads those only", true)
		}
	}
	for _, name := range sorted(r.given) {
		expanded, err := r.expandEntry(r.given[name])
		if err != nil {
			return err
		}
		r.given[name] = expanded
	}
	return r.build()
}

// merge adds a document to those before it, whose keys it overrides. One that is
// for a profile does not apply.
func (r *springReader) merge(d document) {
	profile := ""
	for _, key := range []string{"spring.config.activate.onprofile", "spring.config.activate.oncloudplatform", "spring.profiles"} {
		if _, ok := d[key]; ok {
			profile = key
		}
	}
	for _, key := range sorted(d) {
		e := d[key]
		switch before, twice := r.keys[key]; {
		case profile != "":
			if ofRedis(key) {
				r.ignore(e, "its part of the file is for a profile, and profiles are not looked at", true)
			}
			continue
		case twice && ofRedis(key):
			r.ignore(before, fmt.Sprintf("line %d says it again", e.line), false)
		}
		r.keys[key] = e
	}
}

func ofRedis(key string) bool {
	return strings.HasPrefix(key, newer) || strings.HasPrefix(key, older)
}

// prefix returns what the keys that count begin with, or "".
func (r *springReader) prefix() string {
	found := ""
	for key := range r.keys {
		switch {
		case strings.HasPrefix(key, newer) && key != newer+"repositories.enabled": // which Spring Boot 2 has, too
			return newer
		case ofRedis(key):
			found = older
		}
	}
	return found
}

// redisson reports whether Redisson's starter has settings of its own, and reads
// them.
func (r *springReader) redisson() (bool, error) {
	if e, ok := r.keys[starter+"file"]; ok && r.keys[starter+"config"].line == 0 {
		return true, e.fault("the settings are in the file that it names: read that one, with Redisson or in place of this")
	}
	for _, key := range sorted(r.keys) {
		if strings.HasPrefix(key, starter+"config.") {
			return true, r.keys[key].fault("what belongs to spring.redis.redisson.config is a text: write \"config: |\" and indent it")
		}
	}
	e, ok := r.keys[starter+"config"]
	if !ok {
		return false, nil
	}
	e, err := r.expandEntry(e)
	if err != nil {
		return true, err
	}
	text, err := e.text()
	if err != nil {
		return true, err
	}
	inner, err := redisson(text, r.env)
	if err != nil {
		return true, e.fault("in its text, %v", err)
	}
	before := r.settings.Ignored
	r.settings = *inner
	for i := range r.settings.Ignored {
		r.settings.Ignored[i].Key = "spring.redis.redisson.config: " + r.settings.Ignored[i].Key
		r.settings.Ignored[i].Line += e.inner
	}
	r.settings.Ignored = append(r.settings.Ignored, before...)
	for _, key := range sorted(r.keys) {
		if ofRedis(key) && key != starter+"config" {
			r.ignore(r.keys[key], "spring.redis.redisson.config takes its place", false)
		}
	}
	return true, nil
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
