package etcdhold

import (
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const id = "0a96690245b9a443"

func TestKeys(t *testing.T) {
	for key, m := range map[string]ordered.Label{
		"job/1669a20375372d66-x-" + id:      {Kind: ordered.Mutex, ID: id},
		"job/1669a20375372d66-w-" + id:      {Kind: ordered.Writer, ID: id},
		"job/1669a20375372d66-r-" + id:      {Kind: ordered.Reader, ID: id},
		"a/b/1669a20375372d66-p3-" + id:     {Kind: ordered.Permit, Permits: 3, ID: id},
		"//1669a20375372d66-p1000000-" + id: {Kind: ordered.Permit, Permits: 1000000, ID: id},
	} {
		name := key[:strings.LastIndexByte(key, '/')]
		if got := keyOf(0x1669a20375372d66, name, m, m.ID); got != key {
			t.Errorf("key of %+v: got %q, want %q", m, got, key)
		}
		if of, got, ok := parseKey(key); !ok || of != name || got != m {
			t.Errorf("parse %q: got %q, %+v, %v, want %q, %+v", key, of, got, ok, name, m)
		}
	}
	for _, lease := range []string{"abcdef", "1669a20375372d66", "0"} {
		if name, m, ok := parseKey("job/" + lease); !ok || name != "job" || m != (ordered.Label{Kind: ordered.Mutex}) {
			t.Errorf("a peer's key, lease %s: got %q, %+v, %v, want an exclusive claim of job", lease, name, m, ok)
		}
	}
	for _, key := range []string{
		"job", "job/", "job/x", "job/ABCDEF", "job/1669a20375372d667", "job/-x-" + id, "job/abc-", "job/abc-x", "job/abc-x-", "job/abc-y-" + id,
		"job/abc-x-0a96690245b9a44", "job/abc-x-0a96690245b9a4430", "job/abc-x-0A96690245B9A443", "job/abc-p-" + id, "job/abc-p+3-" + id, "job/abc-p-3-" + id,
		"job/abc-p99999999999-" + id, "job/abc-x3-" + id, "job/abc-x-" + id + "-", "job/abc-" + id,
	} {
		if name, m, ok := parseKey(key); ok {
			t.Errorf("parse %q: got %q, %+v, want that it is no claim", key, name, m)
		}
	}
}

// The queue of a name is in the order of create revisions, whatever the keys are, and has
// no key of a longer name.
func TestQueue(t *testing.T) {
	kv := func(key string, created, version int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte(key), CreateRevision: created, Version: version, Lease: 1, Value: []byte("note")}
	}
	shared := kv("job/c-w-"+id, 7, 2)
	got, err := parseQueue([]*mvccpb.KeyValue{
		kv("job/1/abc", 1, 1), kv("job/a-x-"+id, 9, 1), kv("job/b", 8, 1), shared, kv("job/d-x-"+id, 6, 2), kv("job/readme", 2, 1),
	}, "job")
	if err != nil {
		t.Fatal(err)
	}
	var orders []uint64
	for _, e := range got {
		orders = append(orders, e.Order)
		if want := e.Order == 7; e.Shared != want || e.Note != "note" || e.Name != "job" {
			t.Errorf("got %+v, want the note, the name, and shared: %v", e, want)
		}
	}
	if len(orders) != 4 || orders[0] != 6 || orders[1] != 7 || orders[2] != 8 || orders[3] != 9 {
		t.Errorf("got revisions %v, want 6 to 9", orders)
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"3.4.38": false, "3.5.22": false, "3.5.23": true, "3.5.100": true, "3.6.0": false, "3.6.4": false, "3.6.5": true, "3.6.5-rc.1": false,
		"3.6.6-rc.0": true, "3.7.0": true, "3.7.3": true, "3.10.0": true, "4.0.0": true, "2.3.8": false, "": false, "3.5": false, "3.5.x": false, "3.7.0.1": false,
	} {
		if got := newEnough(version); got != want {
			t.Errorf("etcd %q: new enough %v, want %v", version, got, want)
		}
	}
}

func TestTTLIsRoundedUp(t *testing.T) {
	for _, test := range []struct{ set, want string }{{"0s", "30s"}, {"1ms", "1s"}, {"1s", "1s"}, {"1001ms", "2s"}, {"1m", "1m"}} {
		if got := New(nil, &Options{TTL: duration(t, test.set)}).Info(); got.SessionTTL != duration(t, test.want) || got.MaxTTL != got.SessionTTL {
			t.Errorf("TTL %s: got a session of %v, want %s", test.set, got.SessionTTL, test.want)
		}
	}
	if got := New(nil, nil).Info().SessionTTL; got != defaultTTL {
		t.Errorf("got a session of %v, want %v", got, defaultTTL)
	}
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
