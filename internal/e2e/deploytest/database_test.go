package deploytest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/doctor"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// database is one that a cluster of Redis does not have.
const database = 3

// databaseByGoRedis selects a database of a cluster as docs/configuration.md says.
func databaseByGoRedis(d *redistest.Deployment) (redishold.Conn, func()) {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: d.Seeds(), Password: d.Password(),
		OnConnect: func(ctx context.Context, cn *redis.Conn) error { return cn.Select(ctx, database).Err() },
	})
	return goredisconn.New(client), func() { _ = client.Close() }
}

// keysIn returns the keys that s has in a database.
func keysIn(s *redistest.Server, database int) []string {
	return s.Strings("EVAL", "redis.call('SELECT', ARGV[1]) return redis.call('KEYS', '*')", "0", strconv.Itoa(database))
}

// From Valkey 9 on a cluster has databases. Every connection selects the one that
// was asked for, on every node, and what looks at locks looks there.
func TestDatabaseOfACluster(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ClusterDatabases)
	d := redistest.StartDeployment(t, redistest.Cluster, redistest.Conf("cluster-databases 4"))
	byURL, err := rueidisconn.Open(await.Context(t, 10*time.Second), d.URL()+"/"+strconv.Itoa(database), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(byURL.Close)
	byGoRedis, shut := databaseByGoRedis(d)
	t.Cleanup(shut)
	stores := map[string]*redishold.Backend{"rueidis": redishold.New(byURL, nil), "goredis": redishold.New(byGoRedis, nil)}
	note := &holdfast.Options{Note: "me"}
	clients := map[string]client{}
	for adapter, store := range stores {
		w := &watched{Backend: store}
		clients[adapter] = client{holdfast.New(w, note), w}
	}
	ours, theirs := clients["rueidis"], clients["goredis"]
	useMutexes(t, ours, theirs)
	useOtherKinds(t, theirs, ours)
	for adapter, l := range clients {
		c := admin.New(stores[adapter])
		listCluster(t, l.Locker, c, adapter)
		noticesInCluster(t, d, l.Locker, c)
	}
	for _, conn := range []redishold.Conn{byURL, byGoRedis} {
		if r, err := doctor.Examine(await.Context(t, 20*time.Second), conn, nil); err != nil || r.Worst == doctor.Unknown {
			t.Errorf("doctor: got %+v, error %v", r, err)
		}
	}
	redirected(t, d, byURL, "moved:url")
	redirected(t, d, byGoRedis, "moved:client")
	if err := d.FailOver("mutex:0"); err != nil {
		t.Fatal(err)
	}
	useMutexes(t, theirs, ours)
	for _, s := range d.Masters() {
		if len(keysIn(s, database)) == 0 {
			t.Errorf("%s has no key in database %d", s.Addr(), database)
		}
		if keys := keysIn(s, 0); len(keys) > 0 {
			t.Errorf("%s has keys in database 0: %q", s.Addr(), keys)
		}
	}
	if err := errors.Join(ours.Drain(t.Context()), theirs.Drain(t.Context())); err != nil {
		t.Error(err)
	}
}

// redirected sends a call to a slot that is being moved, over the connection to
// which ASK leads.
func redirected(t *testing.T, d *redistest.Deployment, conn redishold.Conn, key string) {
	t.Helper()
	from := d.Master(key)
	to := d.Masters()[slices.IndexFunc(d.Masters(), func(s *redistest.Server) bool { return s != from })]
	m, err := d.MigrateSlot(redistest.Slot(key), to)
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"return redis.call('SET', KEYS[1], 'v')", "return redis.call('DEL', KEYS[1])"} {
		if keys := keysIn(to, database); slices.Contains(keys, key) != strings.Contains(source, "DEL") {
			t.Errorf("before %s: database %d has %q", source, database, keys)
		}
		r := conn.Do(await.Context(t, 10*time.Second), redishold.Call{Script: redishold.NewScript("test", source), Keys: []string{key}, Source: true})
		if r[0].Err != nil {
			t.Errorf("%s: %v", source, r[0].Err)
		}
	}
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
}
