package open

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// dials returns the times at which a client of etcd, with the settings that a URL gives it,
// tried to connect within a while. Each attempt gets what dial returns.
func dials(t *testing.T, while time.Duration, dial func(context.Context) (net.Conn, error)) []time.Time {
	t.Helper()
	config, _, err := etcdConfig(at("etcd://h"))
	if err != nil {
		t.Fatal(err)
	}
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
