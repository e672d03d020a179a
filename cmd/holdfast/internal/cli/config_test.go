//go:build unix

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// configure writes a configuration and returns its name.
func configure(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// environ is that of a program that knows only where programs are.
func bare(more ...string) []string { return append([]string{"PATH=" + os.Getenv("PATH")}, more...) }

func TestConfigOrder(t *testing.T) {
	s := newSite(t)
	file := configure(t, "holdfast.yaml", fmt.Sprintf("url: redis://%s\nprefix: 'file:'\nlock: {ttl: 7s, wait: 2s}\n", s.server.Addr()))
	show := []string{"run", "job", "--", "sh", "-c", "echo $HOLDFAST_LEASE_MS"}
	for _, test := range []struct {
		environ []string
		flags   []string
		want    string
	}{
		{[]string{"HOLDFAST_CONFIG=" + file}, nil, "7000"},
		{[]string{"HOLDFAST_CONFIG=" + file, "HOLDFAST_TTL=8s"}, nil, "8000"},
		{[]string{"HOLDFAST_CONFIG=" + file, "HOLDFAST_TTL=8s"}, []string{"-t", "9s"}, "9000"},
		{[]string{"HOLDFAST_CONFIG=/no/such/file"}, []string{"--config", file}, "7000"},
		{[]string{"HOLDFAST_CONFIG=" + file, "HOLDFAST_URL=redis://127.0.0.1:1"}, []string{"-u", "redis://" + s.server.Addr()}, "7000"},
	} {
		got := call(t, bare(test.environ...), append(append([]string{"run"}, test.flags...), show[1:]...)...)
		if got.code != 0 || strings.TrimSpace(got.stdout) != test.want {
			t.Errorf("%v %v: got %+v, want %s", test.environ, test.flags, got, test.want)
		}
	}
	call(t, bare("HOLDFAST_CONFIG="+file, "HOLDFAST_URL=redis://127.0.0.1:1"), show...).want(t, 69, "127.0.0.1:1")

	s.environ = bare("HOLDFAST_CONFIG=" + file)
	s.server.HSet("file:job", "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11:1", "1")
	s.run("run", "job", "true").want(t, 75, "is held by Redisson") // prefix and wait are those of the file
	if got := names(t, s.run("ls", "--json")); len(got) != 1 || got[0] != "job" {
		t.Errorf("got %v, want the name without its prefix", got)
	}
	if got := s.run("__complete", "inspect", "j"); !strings.HasPrefix(got.stdout, "job\n") {
		t.Errorf("got %+v, want the name without its prefix", got)
	}
	if got := s.run("status"); !strings.Contains(got.stdout, file) {
		t.Errorf("got %s, want the name of the file", got.stdout)
	}
}

// A Secret of Kubernetes that was made with echo has the end of a line in it.
func TestURLWithTheEndOfALine(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", " "} {
		call(t, bare("HOLDFAST_URL=redis://:s3cret@127.0.0.1:1"+end), "status").want(t, 64, "HOLDFAST_URL ends with a space or the end of a line: remove it")
	}
}

// The end of a line that came with a password is named, from wherever the password comes.
func TestPasswordWithTheEndOfALine(t *testing.T) {
	call(t, bare("HOLDFAST_URL=redis://127.0.0.1:1", "REDISCLI_AUTH=s3cret\n"), "status").want(t, 64, "the password ends with the end of a line")
	for _, end := range []string{"%0A", "%0d%0a"} {
		call(t, bare("HOLDFAST_URL=redis://:s3cret"+end+"@127.0.0.1:1"), "status").want(t, 64, "the password in HOLDFAST_URL ends with %0A, the end of a line")
	}
}

func TestConfigIsFound(t *testing.T) {
	s := newSite(t)
	home := t.TempDir()
	write := func(dir, prefix string) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("url: redis://%s\nprefix: %s\n", s.server.Addr(), prefix)
		if err := os.WriteFile(filepath.Join(dir, "holdfast.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prefix := func(environ ...string) any {
		t.Helper()
		o := objects(t, call(t, bare(environ...), "status", "--json"))
		if len(o) == 0 {
			return nil
		}
		return o[0]["prefix"]
	}
	here := t.TempDir()
	t.Chdir(here)
	write(filepath.Join(home, ".config", "holdfast"), "home")
	if got := prefix("HOME=" + home); got != "home" {
		t.Errorf("got %v, want that in the home", got)
	}
	write(filepath.Join(home, "xdg", "holdfast"), "xdg")
	if got := prefix("HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, "xdg")); got != "xdg" {
		t.Errorf("got %v, want that of XDG_CONFIG_HOME", got)
	}
	write(here, "here")
	if got := prefix("HOME=" + home); got != "here" {
		t.Errorf("got %v, want that in the folder", got)
	}
	for _, mode := range []os.FileMode{0o666, 0o620} {
		if err := os.Chmod(filepath.Join(here, "holdfast.yaml"), mode); err != nil {
			t.Fatal(err)
		}
		call(t, bare("HOME="+home), "status").want(t, 64, "--config")
	}
}

// A password of the file goes to the server of the file, and nowhere else.
func TestConfigPasswords(t *testing.T) {
	s := newSite(t)
	s.server.RequireUserAuth("app", "s3/cr@t%:x")
	addr := s.server.Addr()
	password := configure(t, "password", "s3/cr@t%:x\n")
	for name, content := range map[string]string{
		"in the URL":   "url: redis://app:${SECRET}@" + addr,
		"beside it":    "url: redis://" + addr + "\nredis: {user: app, password: '${SECRET}'}",
		"in a file":    "url: redis://app@" + addr + "\nredis: {password_file: " + password + "}",
		"whole URL":    "url: ${STORE}",
		"with default": "url: redis://${NOBODY:-app}:${SECRET}@${ADDR}",
	} {
		file := configure(t, "holdfast.yaml", content)
		environ := bare("HOLDFAST_CONFIG="+file, "HOLDFAST_LOG_LEVEL=debug", "SECRET=s3/cr@t%:x", "ADDR="+addr, "STORE=redis://app:s3%2Fcr%40t%25%3Ax@"+addr)
		for _, args := range [][]string{{"run", "-v", "job", "true"}, {"status", "--json"}, {"status"}, {"ls", "-v"}} {
			got := call(t, environ, args...)
			if got.code != 0 || strings.Contains(got.stdout+got.stderr, "cr@t") || strings.Contains(got.stdout+got.stderr, "cr%40t") {
				t.Errorf("%s: %v: got %+v, want success without the password", name, args, got)
			}
		}
	}
	file := configure(t, "holdfast.yaml", "url: redis://127.0.0.1:1\nredis: {user: app, password: 's3/cr@t%:x'}")
	call(t, bare("HOLDFAST_CONFIG="+file, "HOLDFAST_URL=redis://"+addr), "status").want(t, 77, "NOAUTH")
}

func TestConfigMistakes(t *testing.T) {
	for content, want := range map[string]string{
		"url: x\nlokc: {ttl: 3s}":                   `line 2: unknown key "lokc"; the known keys are etcd, event_log, lock, mysql, postgres, prefix, redis`,
		"lock:\n  tll: 3s":                          `line 2: unknown key "lock.tll"; the known keys are fair, kill_after, margin, max_hold, ttl, wait`,
		"lock:\n  ttl: s3cret":                      "line 2: lock.ttl: a time is expected",
		"lock:\n  ttl: 3":                           "line 2: lock.ttl: a time is expected",
		"lock:\n  fair: s3cret":                     "line 2: lock.fair: true or false",
		"lock: s3cret":                              "line 1: lock: keys with values",
		"prefix: [s3cret]":                          "line 1: prefix: one value",
		"prefix: a\nprefix: b":                      "already",
		"redis:\n  password: ${NOT_SET}":            "line 2: redis.password: the variable NOT_SET is not set",
		"redis:\n  password: ${s3cret":              "line 2: redis.password: the value has a ${ without a }",
		"redis:\n  password: ${1s3cret}":            "line 2: redis.password: the value has a ${ without a }, or a ${...} that names no variable",
		"url: redis://h\nredisson: a.yaml":          "line 2: url and redisson",
		"redisson: a.yaml\nredis: {password: 12}":   "line 2: redis.password",
		"redlock: redis://s3cret":                   "line 1: redlock: a list",
		"redlock: [[s3cret]]":                       "line 1: redlock: one value",
		"redlock: [s3cret, a, b]":                   "line 1: redlock is neither a URL nor HOST:PORT",
		"redlock: [redis://h, redis://i]":           "line 1: redlock: quorum",
		"url: redis://h\nredlock: [redis://s3cret]": "line 2: url and redlock",
		"\turl: s3cret":                             "this is not YAML",
		"s3cret$: 1":                                "line 1: unknown key (not a name)",
		"redisson: /no/such/file":                   "/no/such/file",
		"url: redis://h\n---\nurl: redis://i":       "more than one YAML document",
		"url: redis://h\nredis: {layout: simple}":   "layout",
		"url: redis://h\nlock: {margin: 20s}":       "lock.margin",
	} {
		file := configure(t, "holdfast.yaml", content)
		got := call(t, bare(), "hold", "--config", file, "-n", "job")
		got.want(t, 64, want)
		if strings.Contains(got.stderr, "s3cret") {
			t.Errorf("%q: got a value in %s", content, got.stderr)
		}
	}
}

func TestConfigOfJava(t *testing.T) {
	s := newSite(t)
	s.server.RequireAuth("s3cret")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"redisson.yaml":          "singleServerConfig:\n  address: redis://" + s.server.Addr() + "\n  password: ${SECRET}\nlockWatchdogTimeout: 12000\nnettyThreads: 3\nnameMapper: !<com.example.Mapper> {}\ncheckLockSyncedSlaves: true\n",
		"application.properties": "spring.data.redis.url=redis://:s3cret@" + s.server.Addr() + "\n",
		"redisson-holdfast.yaml": "redisson: redisson.yaml\n",
		"decided.yaml":           "redisson: redisson.yaml\nredis: {replicas: 0}\n",
		"spring-holdfast.yaml":   "spring: application.properties\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := []string{"run", "job", "--", "sh", "-c", "echo $HOLDFAST_LEASE_MS"}
	got := call(t, bare("SECRET=s3cret", "HOLDFAST_CONFIG="+filepath.Join(dir, "redisson-holdfast.yaml")), command...)
	got.want(t, 0, "nameMapper", "line 6", "set prefix in holdfast.yaml", "line 7: checkLockSyncedSlaves", "redis.replicas in holdfast.yaml")
	if strings.Contains(got.stderr, "redishold.") {
		t.Errorf("got %q, want no option of the library", got.stderr)
	}
	if got.stdout != "12000\n" || strings.Contains(got.stderr, "nettyThreads") {
		t.Errorf("got %+v, want the lease of the watchdog", got)
	}
	got = call(t, bare("SECRET=s3cret", "HOLDFAST_CONFIG="+filepath.Join(dir, "decided.yaml")), command...)
	if got.want(t, 0, "nameMapper"); strings.Contains(got.stderr, "checkLockSyncedSlaves") {
		t.Errorf("got %s, want nothing of replicas where the configuration says how many", got.stderr)
	}
	got = call(t, bare("HOLDFAST_CONFIG="+filepath.Join(dir, "spring-holdfast.yaml")), command...)
	if got.code != 0 || got.stdout != "30000\n" {
		t.Errorf("got %+v", got)
	}
	// A store that is named otherwise does not need the file.
	other := newSite(t)
	call(t, bare("HOLDFAST_URL="+other.url, "HOLDFAST_CONFIG="+filepath.Join(dir, "redisson-holdfast.yaml")), command...).want(t, 0)
}

// forOneCall are the flags that no configuration has, and why.
func forOneCall() map[string][]string {
	return map[string][]string{
		"says which configuration, or asks for help": {"config", "help"},
		"is asked for, or is to be said in the open each time": {
			"askpass", "insecure", "insecure-no-auth",
		},
		"is about one lock or one command, and differs from call to call": {
			"nonblock", "reason", "label", "shared", "exclusive", "permits", "no-renew", "at-least", "conflict-exit-code",
			"lost-exit-code", "skip-ok", "signal", "step-down-on", "shell", "for", "ignore-stdin", "once", "backoff", "holder", "token", "last-token", "yes",
		},
		"says what is printed, or looked for, this time": {
			"json", "verbose", "quiet", "wide", "sort", "limit", "held", "waiting", "keys", "pace", "watch", "since",
			"every", "scan", "count", "timeout", "name", "fail-on",
		},
	}
}

// readElsewhere are the flags whose keys count for the store of the file only, so
// that they are no settings: the key of each.
func readElsewhere() map[string]string {
	return map[string]string{
		"url": "url", "user": "redis.user", "cacert": "redis.tls.ca", "cert": "redis.tls.cert", "key": "redis.tls.key", "sni": "redis.tls.server_name",
	}
}

// everySetting is a configuration in which no key has the value that its flag has by
// itself.
const everySetting = `url: unix:///no/such/socket
prefix: "p:"
redis: {layout: plain, replicas: 1}
lock: {ttl: 20s, margin: 1s, wait: 3s, max_hold: 4s, kill_after: 5s, fair: true}
event_log: {enabled: true}
serve:
  listen: 127.0.0.1:7171
  metrics_listen: 127.0.0.1:7172
  base_path: /locks/
  tls: {cert: cert.pem, key: key.pem}
  auth: {basic_file: users, token_file: tokens, header: X-User, trusted: [10.0.0.0/8, 10.1.1.1]}
  hosts: [locks.example]
  allow_unlock: true
  operators: [ada, "grace, hopper"]
  names: job
  counters: true
  only_while_viewed: true
`

// A flag that no file can set is forgotten sooner or later: by hand it works, and
// as a service it does not.
func TestEveryFlagHasAKey(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"holdfast.yaml": everySetting, "users": "ada:" + hash(t, "lovelace") + "\n", "tokens": "ci 0123456789abcdef\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var oneCall []string
	for _, names := range forOneCall() {
		oneCall = append(oneCall, names...)
	}
	for _, cmd := range newRootCommand(output.Environment{}).Commands() {
		if !documented(cmd) || slices.Contains([]string{"demo", "man", "version", "completion", "config", "configuration", "urls", "exit-status"}, cmd.Name()) {
			continue // which have no store, or one of their own
		}
		for _, flag := range unset(t, cmd.Name(), filepath.Join(dir, "holdfast.yaml")) {
			if _, elsewhere := readElsewhere()[flag.Name]; elsewhere || slices.Contains(oneCall, flag.Name) || cmd.Name() == "ls" && flag.Name == "counters" {
				continue
			}
			t.Errorf("%s --%s is still %q with a configuration of everything: give it a key, and everySetting a value, "+
				"or say in forOneCall why it has none", cmd.Name(), flag.Name, flag.Value)
		}
	}
	for flag, key := range readElsewhere() {
		if !slices.Contains(config.Keys(), key) {
			t.Errorf("--%s: there is no key %s", flag, key)
		}
	}
}

// unset calls a command with the configuration called file, and returns the flags
// that have the value that they have without it.
func unset(t *testing.T, name, file string) (flags []*pflag.Flag) {
	t.Helper()
	var last error
	for _, words := range [][]string{{"job", "true"}, {"job"}, {"job", "3"}, nil} { // whatever the command wants
		env := output.Environment{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Environ: bare()}
		root := newRootCommand(env)
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		args := []string{name, "--config=" + file}
		for _, needed := range []string{"--reason=x", "--yes", "--token=1", "--once"} {
			flag, _, _ := strings.Cut(strings.TrimPrefix(needed, "--"), "=")
			if cmd.Flags().Lookup(flag) != nil {
				args = append(args, needed)
			}
		}
		root.SetArgs(append(args, words...))
		var ended *output.ExitError
		if last = root.ExecuteContext(t.Context()); !errors.As(last, &ended) || ended.Code != output.ExitUnreachable {
			continue
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.String() == f.DefValue {
				flags = append(flags, f)
			}
		})
		return flags
	}
	t.Fatalf("%s: got %v, want a store that is unreachable", name, last)
	return nil
}

// The example in help configuration is one, and serve takes it.
func TestExampleOfTheConfiguration(t *testing.T) {
	_, example, _ := strings.Cut(helpText(t, "configuration"), "\n\n  url:")
	example, _, _ = strings.Cut(example, "\n\n")
	example = strings.ReplaceAll("  url:"+example, "\n  ", "\n")[2:]
	dir := t.TempDir()
	for name, text := range map[string]string{"holdfast.yaml": example, "users": "ada:" + hash(t, "lovelace") + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := call(t, bare("PASSWORD=x", "REDIS_PASSWORD=x"), "serve", "--config", filepath.Join(dir, "holdfast.yaml"))
	got.want(t, output.ExitUsage, "--cacert", "ca.pem") // the first file that the example does not come with
}

// What a configuration can say is in help configuration, by its last word.
func TestEveryKeyIsExplained(t *testing.T) {
	text := helpText(t, "configuration")
	for _, key := range config.Keys() {
		if !strings.Contains(text, key[strings.LastIndexByte(key, '.')+1:]) {
			t.Errorf("%s is not in: holdfast help configuration", key)
		}
	}
}
