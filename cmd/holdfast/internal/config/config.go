// Package config reads the configuration file of the program, holdfast.yaml.
//
// An unknown key is an error, and so is a value of the wrong type. Otherwise the setting would
// have no effect, and the user would get no message. Errors name the file and the line. They
// never quote a value, which could be a password.
package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// valueType is the type that the value of a key must have.
type valueType uint8

const (
	typeText     valueType = iota
	typePath               // of a file, relative to the folder of the configuration
	typeDuration           // such as 1m30s
	typeNumber             // 0 or more
	typeBool               // true or false
	typeURLs               // a list of URLs
	typeTexts              // several texts: a list, or one text with commas, as in a flag
)

// keys returns the keys that a file may have, with the type of each value.
func keys() map[string]valueType {
	all := map[string]valueType{
		"url":      typeText,
		"redlock":  typeURLs,
		"prefix":   typeText,
		"redisson": typePath,
		"spring":   typePath,

		"lock.ttl":        typeDuration,
		"lock.margin":     typeDuration,
		"lock.wait":       typeDuration,
		"lock.max_hold":   typeDuration,
		"lock.kill_after": typeDuration,
		"lock.fair":       typeBool,

		"redis.layout":        typeText,
		"redis.replicas":      typeText,
		"redis.shared_tokens": typeBool,
		"redis.fair_wait":     typeDuration,

		"event_log.enabled":       typeBool,
		"event_log.stream_maxlen": typeNumber,

		"serve.listen":            typeText,
		"serve.metrics_listen":    typeText,
		"serve.base_path":         typeText,
		"serve.tls.cert":          typePath,
		"serve.tls.key":           typePath,
		"serve.auth.basic_file":   typePath,
		"serve.auth.token_file":   typePath,
		"serve.auth.header":       typeText,
		"serve.auth.trusted":      typeTexts,
		"serve.hosts":             typeTexts,
		"serve.allow_unlock":      typeBool,
		"serve.operators":         typeTexts,
		"serve.names":             typeText,
		"serve.counters":          typeBool,
		"serve.only_while_viewed": typeBool,
	}
	for _, store := range []string{"redis", "etcd", "zookeeper", "postgres", "mysql"} {
		for name, is := range storeKeys() {
			all[store+"."+name] = is
		}
	}
	return all
}

// storeKeys returns the keys that the section of every store may have.
func storeKeys() map[string]valueType {
	return map[string]valueType{
		"user":            typeText,
		"password":        typeText,
		"password_file":   typePath,
		"dial_timeout":    typeDuration,
		"tls.ca":          typePath,
		"tls.cert":        typePath,
		"tls.key":         typePath,
		"tls.server_name": typeText,
	}
}

// Keys returns the keys that a file may have, such as "lock.ttl", sorted.
func Keys() []string { return slices.Sorted(maps.Keys(keys())) }

// File has the values of a configuration file. The zero File has none. Do not print a File,
// because values may be passwords.
type File struct {
	Name   string // "" if there is no file
	Secret bool   // the file contains a password

	// Found means that Read found the file in the current folder, and that the user has not
	// named it. Such a file may have come with an archive or a clone, so it is not trusted: see
	// Read.
	Found bool

	values map[string]value
}

type value struct {
	list []string // the values of the key; only some keys may have several
	line int
	from string // if Add has added the value: the key that names the other file; otherwise ""
}

// Lookup returns the value of a key such as "lock.ttl", and whether the file has it. Several
// values are returned with commas between them. A relative path in the file is returned with
// the folder of the file.
func (f File) Lookup(key string) (string, bool) {
	v, ok := f.values[key]
	return strings.Join(v.list, ", "), ok
}

// Text returns the value of a key, "" if the file does not have it.
func (f File) Text(key string) string {
	text, _ := f.Lookup(key)
	return text
}

// List returns the values of a key that may have several. It returns none if the file does
// not have the key.
func (f File) List(key string) []string {
	return slices.Clone(f.values[key].list)
}

// Duration returns the value of a key, 0 if the file does not have it.
func (f File) Duration(key string) time.Duration {
	d, _ := time.ParseDuration(f.Text(key)) // no error: Read has checked the value
	return d
}

// Add adds the values of another file, which this file names with the key `from`. A key that
// this file has keeps its value.
func (f File) Add(from string, values map[string]string) {
	for key, text := range values {
		if _, ok := f.values[key]; !ok {
			f.values[key] = value{list: []string{text}, line: f.values[from].line, from: from}
		}
	}
}

// Where returns the file, the line and the key, for messages.
func (f File) Where(key string) string {
	v := f.values[key]
	return fmt.Sprintf("%s, line %d: %s", f.Name, v.line, cmp.Or(v.from, key))
}

// String returns the name of the file, without its values.
func (f File) String() string { return "configuration " + f.Name }

// GoString is String: values may be passwords.
func (f File) GoString() string { return f.String() }

// Read reads the file called `name`. The function `env` looks up environment variables. If
// `name` is "", Read reads the first of these files that exists, or returns the zero File if
// none exists: holdfast.yaml in the current folder, holdfast/holdfast.yaml in the user's folder
// for configurations, and /etc/holdfast/holdfast.yaml.
//
// A file that Read finds in the current folder may come from somebody else, and could send the
// user's passwords anywhere. So Read returns an error if its owner is neither the user nor
// root, or if other users can write to it. Such a file can use no variables, and name no files
// outside its folder. If skipFound is true, Read does not read such a file, and returns the
// zero File. For the function `waiting` see ReadFileOrWait.
func Read(name string, skipFound bool, env func(string) (string, bool), waiting func(string)) (File, error) {
	found := false
	if name == "" {
		usual := usualNames(env)
		at := slices.IndexFunc(usual, isFile)
		found = at == 0
		if at < 0 || found && skipFound {
			return File{}, nil
		}
		name = usual[at]
	}
	content, err := readFile(os.Open, name, found, waiting)
	if err != nil {
		return File{}, err
	}
	if found {
		env = nil
	}
	return parse(name, content, env)
}

// usualNames returns the names of the files that Read searches for. The first is the one in the
// current folder.
func usualNames(env func(string) (string, bool)) []string {
	names := []string{"holdfast.yaml"}
	if folder, ok := env("XDG_CONFIG_HOME"); ok {
		names = append(names, filepath.Join(folder, "holdfast", "holdfast.yaml"))
	} else if home, ok := env("HOME"); ok {
		names = append(names, filepath.Join(home, ".config", "holdfast", "holdfast.yaml"))
	}
	return append(names, "/etc/holdfast/holdfast.yaml")
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
