package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// file writes a file of a test, and returns its name.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The password of a Redis goes to no other store.
func TestPasswordOfEachKind(t *testing.T) {
	password := func(kind open.Kind, environ string) (string, error) {
		var o Connection
		return o.password(t.Context(), &Location{Kind: kind}, output.Environment{Environ: []string{environ}}, output.Silent())
	}
	name := file(t, "password", "s3cret\n")
	for _, kind := range []open.Kind{open.Redis, open.Etcd, open.ZooKeeper, open.Postgres, open.MySQL} {
		got, err := password(kind, "REDISCLI_AUTH=s3cret")
		if want := kind == open.Redis; err != nil || (got == "s3cret") != want {
			t.Errorf("%s: got the password of a Redis: %v, %v", kind, got != "", err)
		}
		if got, err := password(kind, "HOLDFAST_PASSWORD_FILE="+name); got != "s3cret" || err != nil {
			t.Errorf("%s: got a password of %d bytes, %v, want that of the file", kind, len(got), err)
		}
	}
}

// A section of the configuration is for the store whose URL it has, and for no other.
func TestSectionOfAStore(t *testing.T) {
	for url, section := range map[string]string{"etcds://h": "etcd", "zks://h:2281,i/locks": "zookeeper", "postgres://h/d": "postgres", "mysql://h/d": "mysql"} {
		name := file(t, "holdfast.yaml", "url: "+url+"\nredis: {user: red, password: wrong}\n"+section+": {user: app, password: s3cret, dial_timeout: 7s, tls: {server_name: n}}\n")
		for _, given := range []string{"", "etcds://elsewhere"} {
			var o Connection
			f := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.AddStoreTo(f)
			if o.configName = name; given != "" {
				o.URLs = []string{given}
			}
			env := output.Environment{}
			if err := o.Configure(f, env, output.Silent()); err != nil {
				t.Fatal(err)
			}
			l, err := o.Locate(t.Context(), env, output.Silent())
			if err != nil {
				t.Fatal(err)
			}
			a := l.Servers[0]
			if given == "" && (a.URL != url || a.Username != "app" || a.Password != "s3cret" || a.DialTimeout.String() != "7s" || a.ServerName != "n") {
				t.Errorf("%s: got user %q, name %q, %v, want what the section %s says", url, a.Username, a.ServerName, a.DialTimeout, section)
			}
			if given != "" && (a.URL != given || a.Username != "" || a.Password != "" || a.ServerName != "") {
				t.Errorf("got user %q and a password for another store", a.Username)
			}
		}
	}
}

func TestLengthOfTheEventLog(t *testing.T) {
	o := Connection{configName: file(t, "holdfast.yaml", "event_log: {stream_maxlen: 50}\n")}
	if err := o.prepare(output.Environment{}, output.Silent()); err != nil {
		t.Fatal(err)
	}
	if locks, err := o.redisOptions(nil); err != nil || locks.LogLength != 50 {
		t.Errorf("got %+v and error %v, want a length of 50", locks, err)
	}
}
