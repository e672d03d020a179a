package open

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/internal/must"
)

// dials returns the times at which a client of etcd, with the settings that a URL gives it,
// tried to connect within a while. Each attempt gets what dial returns.
func dials(t *testing.T, while time.Duration, dial func(context.Context) (net.Conn, error)) []time.Time {
	t.Helper()
	e, err := parseEtcd(at("etcd://h"))
	if err != nil {
		t.Fatal(err)
	}
	config := e.config
	attempts := make(chan time.Time, 1<<10)
	config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		attempts <- time.Now()
		return dial(ctx)
	}))
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	client.ActiveConnection().Connect()
	time.Sleep(while)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	close(attempts)
	var all []time.Time
	for attempt := range attempts {
		all = append(all, attempt)
	}
	return all
}

// A server is tried again within two seconds, however long it has refused connections. One
// that accepts connections and does not answer is given up after three seconds before that.
func TestEtcdIsTriedAgainSoon(t *testing.T) {
	const while = 5 * time.Minute
	for name, test := range map[string]struct {
		dial func(context.Context) (net.Conn, error)
		most time.Duration // from one attempt to the next
	}{
		"refuses": {func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }, 2 * time.Second},
		"does not answer": {func(context.Context) (net.Conn, error) {
			client, server := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, server) }() // until the client hangs up
			return client, nil
		}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				last := began
				for _, attempt := range append(dials(t, while, test.dial), began.Add(while)) {
					if passed := attempt.Sub(last); passed > test.most {
						t.Errorf("after %v: %v without an attempt, want %v at most", last.Sub(began), passed, test.most)
					}
					last = attempt
				}
			})
		})
	}
}

// With the name of a flag, a server of any host must have a certificate for that name.
func TestEtcdExpectsTheName(t *testing.T) {
	names := make(chan string, 100)
	server := &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- hello.ServerName
		return nil, errors.New("no")
	}}
	addr := must.Serve(t, func(conn net.Conn) { _ = tls.Server(conn, server).Handshake() })
	for given, want := range map[string]string{"": "localhost", "db.example": "db.example"} {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		r := at("etcds://localhost:" + port)
		r.Access.ServerName, r.Access.DialTimeout = given, time.Second
		e, err := parseEtcd(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = e.open(t.Context()); err == nil {
			t.Error("the store was opened")
		}
		if got := <-names; got != want {
			t.Errorf("--sni %q: got the name %q, want %q", given, got, want)
		}
		for len(names) > 0 {
			<-names
		}
	}
}
