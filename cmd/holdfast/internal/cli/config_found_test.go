//go:build unix

package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/serve"
	"github.com/holdfast-go/holdfast/internal/must"
)

// found writes holdfast.yaml, and files beside it, into a new folder, and goes there.
func found(t *testing.T, content string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "holdfast.yaml", content)
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// thief is a server that notes what it is sent.
type thief struct {
	addr string
	got  chan string
}

func newThief(t *testing.T, talk func(conn net.Conn, text []byte) int) *thief {
	t.Helper()
	v := &thief{got: make(chan string, 100)}
	v.addr = must.Serve(t, func(conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(300 * time.Millisecond))
		text := make([]byte, 4096)
		v.got <- string(text[:talk(conn, text)])
	})
	return v
}

// likeRedis refuses whatever it is asked.
func likeRedis(conn net.Conn, text []byte) int {
	n, _ := conn.Read(text)
	_, _ = conn.Write([]byte("-ERR no\r\n"))
	return n
}

// loot is what was sent so far.
func (v *thief) loot() string {
	var all strings.Builder
	for {
		select {
		case text := <-v.got:
			all.WriteString(text)
		default:
			return all.String()
		}
	}
}

// A configuration that came with a clone or an archive sends nothing of the user's to the
// server that it names.
func TestFoundConfigurationIsNoAuthority(t *testing.T) {
	v := newThief(t, likeRedis)
	home := t.TempDir()
	write(t, filepath.Join(home, "key"), "s3cret\n")
	environ := bare("HOME="+home, "AWS_KEY=s3cret", "REDISCLI_AUTH=s3cret", "HOLDFAST_PASSWORD_FILE="+filepath.Join(home, "key"))
	url := "url: redis://" + v.addr + "\n"
	for content, want := range map[string]string{
		"url: redis://u:${AWS_KEY}@" + v.addr:                                     "line 1: url: the value has a ${...}; that works only in a configuration that --config or HOLDFAST_CONFIG names",
		"url: redis://${AWS_KEY:-x}@" + v.addr:                                    "line 1: url: the value has a ${...}",
		"redlock: ['redis://${AWS_KEY}@" + v.addr + "', redis://h, redis://i]":    "line 1: redlock: the value has a ${...}",
		url + "redis: {password_file: " + filepath.Join(home, "key") + "}":        "line 2: redis.password_file: the file is not in this folder",
		url + "redis: {password_file: ../" + filepath.Base(home) + "/key}":        "line 2: redis.password_file: the file is not in this folder",
		url + "redis: {password_file: link}":                                      "line 2: redis.password_file: the file is not in this folder",
		url + "redis: {password_file: links/key}":                                 "line 2: redis.password_file: the file is not in this folder",
		url + "redis: {tls: {ca: ca.pem, cert: link, key: link}}":                 "line 2: redis.tls.cert: the file is not in this folder",
		"redisson: " + filepath.Join(home, "redisson.yaml"):                       "line 1: redisson: the file is not in this folder",
		"redisson: redisson.yaml":                                                 "sets no variables",
		"spring: application.yaml":                                                "escapes",
		"url: postgres://" + v.addr + "/d?passfile=" + filepath.Join(home, "key"): "passfile",
	} {
		found(t, content)
		for name, to := range map[string]string{"link": filepath.Join(home, "key"), "links": home} {
			if err := os.Symlink(to, name); err != nil {
				t.Fatal(err)
			}
		}
		write(t, "redisson.yaml", "singleServerConfig:\n  address: redis://"+v.addr+"\n  password: ${AWS_KEY}\n")
		write(t, "application.yaml", "spring.data.redis: {url: 'rediss://"+v.addr+"'}\n")
		if content == "spring: application.yaml" {
			write(t, "holdfast.yaml", "redisson: truststore.yaml\n")
			write(t, "truststore.yaml", "singleServerConfig:\n  address: rediss://"+v.addr+"\n  sslTruststore: file:"+filepath.Join(home, "key")+"\n  sslKeystoreType: PEM\n")
		}
		got := call(t, environ, "run", "job", "true")
		got.want(t, output.ExitUsage, want)
		if strings.Contains(got.stderr, "s3cret") {
			t.Errorf("%s: got a secret in %s", content, got.stderr)
		}
	}
	// The server that it names is asked, and gets no password of the environment.
	found(t, url)
	got := call(t, environ, "status", "--timeout", "2s")
	if !strings.Contains(got.stderr, "the settings come from ./holdfast.yaml in this folder") || !strings.Contains(got.stderr, "REDISCLI_AUTH is not used") {
		t.Errorf("got %s, want lines that say which file was used, and what was not", got.stderr)
	}
	loot := v.loot()
	if !strings.Contains(loot, "HELLO") || strings.Contains(loot, "s3cret") {
		t.Errorf("the server got %q, want a greeting without a password", loot)
	}
	// It is trusted once somebody has named it.
	call(t, environ, "status", "--timeout", "2s", "--config", "holdfast.yaml")
	if loot := v.loot(); !strings.Contains(loot, "s3cret") {
		t.Errorf("the server got %q, want the password: the test proves nothing", loot)
	}
}

// A shell that completes a name asks no server that a found configuration names.
func TestCompletionDoesNotUseWhatItFinds(t *testing.T) {
	v := newThief(t, likeRedis)
	found(t, "url: redis://"+v.addr+"\n")
	call(t, bare(), "__complete", "inspect", "")
	call(t, bare(), "__complete", "run", "")
	if loot := v.loot(); loot != "" {
		t.Errorf("the server got %q, want nothing", loot)
	}
	call(t, bare("HOLDFAST_CONFIG=holdfast.yaml"), "__complete", "inspect", "")
	if loot := v.loot(); loot == "" {
		t.Error("the server got nothing with HOLDFAST_CONFIG: the test proves nothing")
	}
}

// libpq has passwords of the environment too.
func TestFoundConfigurationOfPostgreSQL(t *testing.T) {
	home := t.TempDir()
	write(t, filepath.Join(home, "pgpass"), "*:*:*:*:s3cret\n")
	t.Setenv("PGPASSWORD", "s3cret")
	t.Setenv("PGPASSFILE", filepath.Join(home, "pgpass"))
	for _, url := range []string{"postgres://u@%s/d", "postgres://u:own@%s/d", "postgres://u@%s/d?password=own"} {
		v := newThief(t, likePostgres)
		found(t, "url: "+strings.Replace(url, "%s", v.addr, 1)+"\n")
		call(t, bare(), "status", "--timeout", "1s")
		if loot, own := v.loot(), strings.Contains(url, "own"); strings.Contains(loot, "s3cret") || strings.Contains(loot, "own") != own {
			t.Errorf("%s: the server got %q, want no password but its own", url, loot)
		}
	}
}

// likePostgres asks for a password in the clear.
func likePostgres(conn net.Conn, text []byte) int {
	if n, _ := conn.Read(text); n == 8 { // TLS?
		_, _ = conn.Write([]byte("N"))
		_, _ = conn.Read(text)
	}
	_, _ = conn.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x03"))
	n, _ := conn.Read(text)
	return n
}

// Who may look, and where, is not for a file that came with a clone.
func TestFoundConfigurationOfServe(t *testing.T) {
	s := newSite(t)
	for _, serve := range []string{"listen: '0.0.0.0:0'", "auth: {token_file: tokens}", "auth: {header: X, trusted: [0.0.0.0/0]}", "allow_unlock: true", "hosts: [evil.example]"} {
		found(t, "serve: {"+serve+"}\n")
		write(t, "tokens", "evil 0123456789abcdef\n")
		s.run("serve").want(t, output.ExitUsage, "name the file with --config")
	}
	if got := s.run("ls"); got.code != 0 {
		t.Errorf("got %+v, want that other commands do not mind", got)
	}
}

// Files of secrets have an end, and nobody else may read or write them.
func TestFilesOfSecrets(t *testing.T) {
	s := newSite(t)
	for _, args := range []string{
		"serve --token-file /dev/zero", "serve --basic-file /dev/zero", "ls --cacert /dev/zero", "ls --cert /dev/zero --key /dev/zero",
	} {
		s.run(strings.Fields(args)...).want(t, output.ExitUsage, "too long")
	}
	call(t, append(s.environ, "HOLDFAST_PASSWORD_FILE=/dev/zero"), "ls").want(t, output.ExitUsage, "too long")
	call(t, bare(), "ls", "--config", configure(t, "holdfast.yaml", "redisson: /dev/zero\n")).want(t, output.ExitUsage, "too long")
	call(t, bare(), "ls", "--config", "/dev/zero").want(t, output.ExitUsage, "too long")

	password := configure(t, "password", "x\n")
	config := configure(t, "holdfast.yaml", "url: "+s.url+"\nredis: {password_file: "+password+"}\n")
	inside := configure(t, "holdfast.yaml", "url: redis://:x@"+s.server.Addr()+"\n")
	users := configure(t, "users", "ada:"+hash(t, "lovelace")+"\n")
	s.server.RequireAuth("x")
	for _, test := range []struct {
		file string
		mode os.FileMode
		want string
	}{
		{password, 0o600, ""},
		{password, 0o640, ""},
		{password, 0o644, "other users can read " + password},
		{password, 0o660, "other users can write to " + password},
		{config, 0o644, ""},
		{config, 0o666, "other users can write to " + config},
		{inside, 0o600, ""},
		{inside, 0o644, "other users can read " + inside},
	} {
		if err := os.Chmod(test.file, test.mode); err != nil {
			t.Fatal(err)
		}
		of := config
		if test.file == inside {
			of = inside
		}
		got := call(t, bare(), "run", "--config", of, "job", "true")
		if got.code != 0 || strings.Count(got.stderr, "other users") != min(1, len(test.want)) || !strings.Contains(got.stderr, test.want) {
			t.Errorf("%s with %v: got %+v, want %q", test.file, test.mode, got, test.want)
		}
		_ = os.Chmod(test.file, 0o600)
	}
	if err := os.Chmod(users, 0o644); err != nil {
		t.Fatal(err)
	}
	o := serveOptions{Options: serve.Options{BasicFile: users, Listen: "127.0.0.1:0"}}
	var stderr buffer
	env := output.Environment{Environ: bare(), Stderr: &stderr}
	cmd := newServeCommand(env)
	if err := o.complete(context.Background(), cmd.Flags(), env); err != nil || !strings.Contains(stderr.String(), "other users can read "+users) {
		t.Errorf("got %q, %v, want a warning", stderr.String(), err)
	}
}
