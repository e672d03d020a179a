package open

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// answering starts a server that sends greeting, and answer to whatever comes. It returns
// its address.
func answering(t *testing.T, greeting, answer string) string {
	t.Helper()
	return must.Serve(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, greeting)
		if _, err := conn.Read(make([]byte, 64)); err == nil && answer != "" {
			_, _ = io.WriteString(conn, answer)
		}
		_, _ = io.Copy(io.Discard, conn)
	})
}

// broken is a store that cannot be opened.
type broken struct {
	settings
	err error
}

func (b broken) open(context.Context) (*Store, error) { return nil, b.err }

// A store that cannot be opened because something else answers says what that is.
func TestWhatAnswers(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(web.Close)
	t.Cleanup(secure.Close)
	etcd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"etcdserver":"3.7.3","etcdcluster":"3.7.0"}`)
	}))
	t.Cleanup(etcd.Close)
	at := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	redis, zookeeper := answering(t, "", "-ERR unknown command\r\n"), answering(t, "", "Zookeeper version: 3.9.4\n")
	postgres, mysql := answering(t, "", "N"), answering(t, "J\x00\x00\x00\n5.5.5-10.11\x00", "")
	frozen, closing := answering(t, "", ""), must.Serve(t, func(net.Conn) {})
	const unexplained = "what the client says"
	for url, want := range map[string]string{
		"redis://" + at(web):                 "an HTTP server answers there, not Redis",
		"redis://" + mysql:                   "a MySQL or MariaDB answers there, not Redis",
		"redis://" + postgres:                "a PostgreSQL answers there, not Redis",
		"redis://" + frozen:                  "accepts connections and does not answer",
		"redis://" + closing:                 "accepts each connection and closes it at once",
		"zk://" + closing:                    "accepts each connection and closes it at once",
		"redis://" + at(secure):              "speaks TLS: use rediss://",
		"redis+cluster://" + at(secure):      "speaks TLS: use rediss+cluster://",
		"rediss://" + redis:                  "does not speak TLS: use redis://",
		"etcd://" + at(web):                  "an HTTP server answers there, not etcd",
		"etcd://" + redis:                    "a Redis answers there, not etcd",
		"etcd://" + at(secure):               "speaks TLS: use etcds://",
		"etcds://" + at(etcd):                "does not speak TLS: use etcd://",
		"zk://" + redis:                      "a Redis answers there, not ZooKeeper",
		"zk://" + at(secure):                 "speaks TLS: use zks://",
		"zks://" + zookeeper:                 "does not speak TLS: use zk://",
		"postgres://test@" + redis:           "a Redis answers there, not PostgreSQL",
		"postgres://test@" + mysql:           "a MySQL or MariaDB answers there, not PostgreSQL",
		"mysql://test@" + at(web) + "/test":  "an HTTP server answers there, not MySQL",
		"mysql://test@" + zookeeper + "/d":   "a ZooKeeper answers there, not MySQL",
		"redis://127.0.0.1:1":                unexplained,
		"redis://" + redis:                   unexplained,
		"postgres://test@" + postgres:        unexplained,
		"zk://127.0.0.1:1":                   unexplained,
		"postgres://test@" + frozen:          "accepts connections and does not answer",
		"etcd://" + frozen:                   "accepts connections and does not answer",
		"mysql://test@" + frozen + "/test":   "accepts connections and does not answer",
		"zk://" + frozen:                     "accepts connections and does not answer",
		"mysql://test@" + postgres + "/test": "a PostgreSQL answers there, not MySQL",
	} {
		t.Run(strings.SplitN(url, "127", 2)[0]+want, func(t *testing.T) {
			t.Parallel()
			target, err := Parse(Request{Access: Access{URL: url}})
			if err != nil {
				t.Fatal(err)
			}
			failure := unsent.Error(errors.New(unexplained))
			target.settings = broken{target.settings, failure}
			_, err = target.Open(t.Context())
			if !strings.Contains(err.Error(), want) || !errors.Is(err, driver.ErrNotExecuted) {
				t.Errorf("%s: got %v, want %q", url, err, want)
			}
			if err.Error() != failure.Error() && strings.Contains(err.Error(), unexplained) {
				t.Errorf("%s: got %v, without what the client says", url, err)
			}
		})
	}
}

// A refusal is of the store itself: nothing is asked.
func TestRefusalIsNotExplained(t *testing.T) {
	want := errors.Join(driver.ErrRefused, errors.New("WRONGPASS"))
	target := &Target{Kind: Redis, settings: broken{err: want}, access: Access{URL: "redis://" + answering(t, "", "")}}
	if _, err := target.Open(t.Context()); err.Error() != want.Error() || !target.probe.asked.IsZero() {
		t.Errorf("got %v after a question, want %v", err, want)
	}
}

// Of several attempts to open a store, only the first asks what answers there.
func TestAnswersAreKept(t *testing.T) {
	questions := make(chan struct{}, 100)
	addr := must.Serve(t, func(conn net.Conn) {
		questions <- struct{}{}
		_, _ = io.WriteString(conn, "J\x00\x00\x00\n5.5.5-10.11\x00")
		_, _ = io.Copy(io.Discard, conn)
	})
	target, err := Parse(at("redis://" + addr))
	if err != nil {
		t.Fatal(err)
	}
	target.settings = broken{target.settings, unsent.Error(errors.New("EOF"))}
	asked := 0
	for range 3 {
		if _, err = target.Open(t.Context()); !strings.Contains(err.Error(), "a MySQL or MariaDB answers there") {
			t.Errorf("got %v, want what answers", err)
		}
		if asked == 0 {
			asked = len(questions)
		}
	}
	if got := len(questions); asked == 0 || got > asked {
		t.Errorf("got %d connections after three attempts, %d after the first", got, asked)
	}
}
