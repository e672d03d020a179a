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
	"github.com/holdfast-go/holdfast/internal/await"
)

func TestMain(m *testing.M) {
	// A client that never found a server still searches for a cluster for up to a second;
	// rueidis has no way to wait for that.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

func TestOpenRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	start := await.NewWatch(t)
	_, err = Open(context.Background(), "redis://u:secret@"+addr, nil)
	if !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got error %v, want ErrNotExecuted that names %s and no password", err, addr)
	}
	if took := start.Took(); took > time.Second {
		t.Errorf("took %v", took)
	}
}

func TestOpenUnixSocketRefused(t *testing.T) {
	_, err := Open(context.Background(), "unix://"+t.TempDir()+"/none.sock", nil)
	if !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), "none.sock") {
		t.Errorf("got error %v, want ErrNotExecuted that names the socket", err)
	}
}

// Open ends with its context although a server accepts the connection and sends nothing.
func TestOpenEndsWithContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := await.NewWatch(t)
	_, err = Open(ctx, "redis://"+l.Addr().String(), &Options{DialTimeout: 5 * time.Second})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want DeadlineExceeded", err)
	}
	if took := start.Took(); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	_, err = Open(context.Background(), "redis://"+l.Addr().String(), &Options{DialTimeout: 300 * time.Millisecond})
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a context's end: got error %v, want one that is no context's", err)
	}
}

// A Sentinel that does not respond delays rueidis for a second before it asks the next,
// unless the program sets another DialTimeout.
func TestSentinelDialTimeout(t *testing.T) {
	for _, test := range []struct {
		url           string
		o             Options
		sentinel, all time.Duration
	}{
		{"redis+sentinel://h/m", Options{}, time.Second, 1500 * time.Millisecond},
		{"redis+sentinel://h/m?dial_timeout=3s", Options{}, 3 * time.Second, 3 * time.Second},
		{"redis+sentinel://h/m?dial_timeout=3s", Options{DialTimeout: 4 * time.Second}, 4 * time.Second, 4 * time.Second},
	} {
		got, err := targetOf("", test.url, &test.o)
		if err != nil {
			t.Fatal(err)
		}
		if s, all := got.option.Sentinel.Dialer.Timeout, got.option.Dialer.Timeout; s != test.sentinel || all != test.all {
			t.Errorf("%s, %+v: got %v for Sentinels, %v for others, want %v, %v", test.url, test.o.DialTimeout, s, all, test.sentinel, test.all)
		}
	}
}

// The parameters of a URL become settings of rueidis, unless Options set the same.
func TestSettings(t *testing.T) {
	const url = "rediss+sentinel://u:p@s1,s2:7/m/2?sentinel_username=su&sentinel_password=sp&client_name=c&protocol=2&write_timeout=3s&skip_verify"
	for _, test := range []struct {
		o    Options
		want [5]string
	}{
		{Options{}, [5]string{"u", "p", "su", "sp", "c"}},
		{Options{Username: "ou", Password: "op", SentinelUsername: "osu", SentinelPassword: "osp", ClientName: "oc"}, [5]string{"ou", "op", "osu", "osp", "oc"}},
	} {
		target, err := targetOf("", url, &test.o)
		if err != nil {
			t.Fatal(err)
		}
		o := target.option
		if got := [5]string{o.Username, o.Password, o.Sentinel.Username, o.Sentinel.Password, o.ClientName}; got != test.want || o.Sentinel.ClientName != o.ClientName {
			t.Errorf("got %q and the name %q at Sentinels, want %q", got, o.Sentinel.ClientName, test.want)
		}
		if got := strings.Join(o.InitAddress, " "); got != "s1:26379 s2:7" || o.Sentinel.MasterSet != "m" || o.SelectDB != 2 {
			t.Errorf("got %s, master %q, database %d", got, o.Sentinel.MasterSet, o.SelectDB)
		}
		if !o.AlwaysRESP2 || o.ConnWriteTimeout != 3*time.Second || !o.TLSConfig.InsecureSkipVerify || !o.Sentinel.TLSConfig.InsecureSkipVerify {
			t.Errorf("got %+v", o)
		}
	}
}
