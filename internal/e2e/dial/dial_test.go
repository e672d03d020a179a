package dial_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, dial.Sleepers()...) }

// each runs test for every adapter.
func each(t *testing.T, test func(t *testing.T, adapter string)) {
	for _, adapter := range dial.Adapters() {
		t.Run(adapter, func(t *testing.T) { test(t, adapter) })
	}
}

func TestEveryTopologyThroughProxiesOnly(t *testing.T) {
	for _, top := range redistest.Topologies() {
		t.Run(string(top), func(t *testing.T) {
			t.Parallel()
			d := redistest.StartDeployment(t, top)
			each(t, func(t *testing.T, adapter string) {
				mesh := faultproxy.StartMesh(t, d.Addrs())
				target := dial.To(adapter, d)
				target.Routes = mesh.Routes()
				conn := open(t, target)
				key := "k-" + adapter
				set(t, conn, key)
				if got := d.Master(key).Do("GET", key); got != any("v") {
					t.Fatalf("got %v at the master, want v", got)
				}
				mesh.Blackhole(true)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if r := conn.Do(ctx, setCall(key))[0]; r.Err == nil {
					t.Fatal("a call got past the proxies")
				}
				mesh.Blackhole(false)
			})
		})
	}
}

func TestPasswords(t *testing.T) {
	for _, top := range []redistest.Topology{redistest.Standalone, redistest.Sentinel, redistest.Cluster} {
		t.Run(string(top), func(t *testing.T) {
			t.Parallel()
			d := redistest.StartDeployment(t, top, redistest.Password("p@ss"), redistest.SentinelPassword("s/ss"))
			each(t, func(t *testing.T, adapter string) { set(t, open(t, dial.To(adapter, d)), "k") })
		})
	}
}

func TestTLS(t *testing.T) {
	for _, top := range redistest.Topologies() {
		t.Run(string(top), func(t *testing.T) {
			t.Parallel()
			d := redistest.StartDeployment(t, top, redistest.TLS())
			each(t, func(t *testing.T, adapter string) { set(t, open(t, dial.To(adapter, d)), "k") })
		})
	}
}

func TestUnixSocket(t *testing.T) {
	d := redistest.StartDeployment(t, redistest.Standalone, redistest.UnixSocket())
	if !strings.HasPrefix(d.URL(), "unix:///") {
		t.Fatalf("got URL %q, want one of a socket", d.URL())
	}
	each(t, func(t *testing.T, adapter string) { set(t, open(t, dial.To(adapter, d)), "k") })
}

func TestTargetAsJSON(t *testing.T) {
	want := dial.Target{
		Adapter: "goredis", Topology: redistest.Sentinel, Seeds: []string{"a:1"}, Password: "p",
		SentinelPassword: "s", Routes: map[string]string{"a:1": "b:2"}, Socket: "/s",
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got dial.Target
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
}

func open(t *testing.T, target dial.Target) redishold.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, closeConn, err := dial.Open(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeConn)
	return conn
}

func set(t *testing.T, conn redishold.Conn, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if r := conn.Do(ctx, setCall(key))[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
}

func setCall(key string) redishold.Call {
	return redishold.Call{Script: redishold.NewScript("set", "return redis.call('SET', KEYS[1], 'v')"), Keys: []string{key}}
}
