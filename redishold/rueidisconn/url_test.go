package rueidisconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
)

func TestMain(m *testing.M) {
	// A client that never found a server still wants to look for a cluster for up
	// to a second; rueidis offers no way to wait for that.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

func TestURL(t *testing.T) {
	for raw, want := range map[string]struct {
		addr, user, password string
		db                   int
		tls                  bool
	}{
		"redis://localhost":                    {"localhost:6379", "", "", 0, false},
		"redis://u:p%2Fw@h:7000/3":             {"h:7000", "u", "p/w", 3, false},
		"valkey://h:7000?db=2":                 {"h:7000", "", "", 2, false},
		"rediss://:pw@h":                       {"h:6379", "", "pw", 0, true},
		"valkeys://h":                          {"h:6379", "", "", 0, true},
		"unix:///run/redis.sock?db=1":          {"/run/redis.sock", "", "", 1, false},
		"unix://u:pw@/run/redis@1.sock":        {"/run/redis@1.sock", "u", "pw", 0, false},
		"redis://[::1]:7000":                   {"[::1]:7000", "", "", 0, false},
		"redis://h?dial_timeout=1s&protocol=2": {"h:6379", "", "", 0, false},
	} {
		o, err := parseURL(raw)
		if err != nil {
			t.Errorf("%s: got error %v", raw, err)
			continue
		}
		if o.InitAddress[0] != want.addr || o.Username != want.user || o.Password != want.password || o.SelectDB != want.db || (o.TLSConfig != nil) != want.tls {
			t.Errorf("%s: got %v %q %q %d TLS %v, want %+v", raw, o.InitAddress, o.Username, o.Password, o.SelectDB, o.TLSConfig != nil, want)
		}
	}
}

func TestURLErrors(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://h?timeout=1s":              `unknown parameter "timeout" (known: addr, client_name, db,`,
		"http://h":                          `unknown scheme "http" (known: redis, rediss,`,
		"h:6379":                            "unknown scheme",
		"redis+sentinel://h/mymaster":       "not supported yet",
		"redis-sentinel://h1,h2/0?x=1":      "not supported yet",
		"redis+cluster://h1,h2":             "not supported yet",
		"redis://u:se/cret@h":               "cannot be taken apart",
		"redis://u:9/secret@h":              "cannot be taken apart",
		"redis://u:9?secret@h":              "cannot be taken apart",
		"redis://u:9#secret@h":              "cannot be taken apart",
		"redis://u:secret%zz@h":             "cannot be taken apart",
		"redis://h/one":                     "invalid database number",
		"redis://u:secret@h?dial_timeout=x": "invalid dial timeout",
	} {
		_, err := parseURL(raw)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", raw, err, want)
			continue
		}
		if strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: the error shows the password: %v", raw, err)
		}
	}
}

func TestOpenRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	start := time.Now()
	_, err = Open(context.Background(), "redis://u:secret@"+addr, nil)
	if !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got error %v, want ErrNotSent that names %s and no password", err, addr)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
}

func TestOpenUnixSocketRefused(t *testing.T) {
	_, err := Open(context.Background(), "unix://"+t.TempDir()+"/none.sock", nil)
	if !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "none.sock") {
		t.Errorf("got error %v, want ErrNotSent that names the socket", err)
	}
}

// A server that accepts and says nothing must not keep Open.
func TestOpenEndsWithContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = Open(ctx, "redis://"+l.Addr().String(), &Options{DialTimeout: 300 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want DeadlineExceeded", err)
	}
	if took := time.Since(start); took > 150*time.Millisecond {
		t.Errorf("took %v", took)
	}
	_, err = Open(context.Background(), "redis://"+l.Addr().String(), &Options{DialTimeout: 300 * time.Millisecond})
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a context's end: got error %v, want one that is no context's", err)
	}
}
