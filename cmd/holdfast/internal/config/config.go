package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// sort is the type that a value must have.
type sort uint8

const (
	text sort = iota
	path      // of a file, relative to the folder of the configuration
	duration
	number
	yes  // true or false
	list // of URLs
	some // several texts: a list, or one text with commas, as in a flag
)

// keys returns the keys that a file may have, with the type of each value.
func keys() map[string]sort {
	all := map[string]sort{
		"url": text, "redlock": list, "prefix": text, "redisson": path, "spring": path,

		"lock.ttl": duration, "lock.margin": duration, "lock.wait": duration, "lock.max_hold": duration,
		"lock.kill_after": duration, "lock.fair": yes,

		"redis.layout": text, "redis.replicas": text, "redis.shared_tokens": yes, "redis.fair_wait": duration,

		"event_log.enabled": yes, "event_log.stream_maxlen": number,

		"serve.listen": text, "serve.metrics_listen": text, "serve.base_path": text,
		"serve.tls.cert": path, "serve.tls.key": path,
		"serve.auth.basic_file": path, "serve.auth.token_file": path,
		"serve.auth.header": text, "serve.auth.trusted": some, "serve.hosts": some,
		"serve.allow_unlock": yes, "serve.operators": some,
		"serve.names": text, "serve.counters": yes, "serve.only_while_viewed": yes,
	}
	for _, store := range []string{"redis", "etcd", "zookeeper", "postgres", "mysql"} {
		for name, is := range map[string]sort{
			"user": text, "password": text, "password_file": path, "dial_timeout": duration,
			"tls.ca": path, "tls.cert": path, "tls.key": path, "tls.server_name": text,
		} {
			all[store+"."+name] = is
		}
	}
	return all
}

// Keys returns the keys that a file may have, such as "lock.ttl", sorted.
func Keys() []string { return slices.Sorted(maps.Keys(keys())) }

// File has the values of a configuration file. The zero File has none. It must not be
// printed: values may be passwords.
type File struct {
	name   string
	values map[string]value
	found  bool // it was found in the current folder, and not named
	secret bool // it contains a password
}

type value struct {
	text string
	list []string
	line int
}

// Lookup returns the value of a key such as "lock.ttl", and whether the file has it. A
// relative path in the file is returned with the folder of the file.
func (f *File) Lookup(key string) (string, bool) {
	if f == nil {
		return "", false
	}
	v, ok := f.values[key]
	return v.text, ok
}

// Text returns the value of a key, "" if the file does not have it.
func (f *File) Text(key string) string {
	v, _ := f.Lookup(key)
	return v
}

// List returns the values of a key that may have several. It returns none if the file does
// not have the key.
func (f *File) List(key string) []string {
	if f == nil {
		return nil
	}
	return slices.Clone(f.values[key].list)
}

// Duration returns the value of a key, 0 if the file does not have it.
func (f *File) Duration(key string) time.Duration {
	d, _ := time.ParseDuration(f.Text(key)) // checked when the file was read
	return d
}

// Yes reports whether the value of a key is true.
func (f *File) Yes(key string) bool {
	ok, _ := strconv.ParseBool(f.Text(key)) // checked when the file was read
	return ok
}

// Name returns the name of the file, "" if there is none.
func (f *File) Name() string {
	if f == nil {
		return ""
	}
	return f.name
}

// Found reports whether the file was found in the current folder, and the user has not named
// it. It may have come with an archive or a clone, so it is not trusted: see Find.
func (f *File) Found() bool { return f != nil && f.found }

// Exposed returns a warning if other users can write to the file, or if they can read it and
// it contains a password. Otherwise it returns "".
func (f *File) Exposed() string {
	if f.Name() == "" {
		return ""
	}
	return exposed(f.name, f.secret)
}

// Where returns the file, the line and the key, for messages.
func (f *File) Where(key string) string {
	return fmt.Sprintf("%s, line %d: %s", f.name, f.values[key].line, key)
}

// String returns the name of the file, without its values.
func (f *File) String() string { return "configuration " + f.Name() }

// GoString is String: values may be passwords.
func (f *File) GoString() string { return f.String() }

// maxFile is the largest size of a configuration, in bytes.
const maxFile = 1 << 20

// Read reads the file called name. The function env looks up environment variables.
func Read(name string, env func(string) (string, bool)) (*File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := readAll(file, name, maxFile)
	if err != nil {
		return nil, err
	}
	return parse(name, content, env)
}

// Find reads the first of these files that exists, and returns the zero File if none
// does: holdfast.yaml in the current folder, the same in the folder holdfast of the
// user's configuration, and /etc/holdfast/holdfast.yaml.
//
// A file in the current folder is an error if a user other than this one and root owns it, or
// if other users can write to it: it could send the user's passwords anywhere. The user has
// not named that file, so it gets no variables, and cannot name files outside its folder.
func Find(env func(string) (string, bool)) (*File, error) {
	candidates := []string{foundName}
	home, ok := env("XDG_CONFIG_HOME")
	if user, set := env("HOME"); set && !ok {
		home, ok = filepath.Join(user, ".config"), true
	}
	if ok {
		candidates = append(candidates, filepath.Join(home, "holdfast", foundName))
	}
	candidates = append(candidates, filepath.Join("/etc/holdfast", foundName))
	at := slices.IndexFunc(candidates, isFile)
	if at < 0 {
		return &File{}, nil
	}
	if at > 0 {
		return Read(candidates[at], env)
	}
	return readFound(foundName)
}

// FindNamed is Find, but returns the zero File if there is a file in the current folder.
func FindNamed(env func(string) (string, bool)) (*File, error) {
	if isFile(foundName) {
		return &File{}, nil
	}
	return Find(env)
}

// foundName is the name of the file that Find searches for.
const foundName = "holdfast.yaml"

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// readFound reads a file of the current folder if no other user could have written it. It
// checks the file that it has opened, because the name may belong to another file by then.
func readFound(name string) (*File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !trusted(info) {
		return nil, fmt.Errorf("%s in this folder is somebody else's, or others may write to it; name it with --config to use it all the same", name)
	}
	content, err := readAll(file, name, maxFile)
	if err != nil {
		return nil, err
	}
	return parse(name, content, nil)
}
