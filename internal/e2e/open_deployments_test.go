//go:build unix

package e2e_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// rueidisconn.Open with every form of URL, on real deployments.

// mustLock opens url, and takes and releases locks of several hash slots.
func mustLock(t *testing.T, url string, o *rueidisconn.Options) {
	t.Helper()
	conn, err := rueidisconn.Open(t.Context(), url, o)
	if err != nil {
		t.Errorf("%s: %v", url, err)
		return
	}
	defer conn.Close()
	locker := holdfast.New(redishold.New(conn, nil), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	defer func() { _ = locker.Drain(ctx) }()
	for _, name := range []string{"a", "b", "c"} {
		lock, err := locker.TryLock(ctx, name)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			return
		}
		if err := lock.Unlock(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// mustNotOpen opens url and returns its error, which must come soon, of a kind
// ("refused": by a server; "unready": ErrNotExecuted; "url"), and without a password.
func mustNotOpen(t *testing.T, url, kind, text string) {
	t.Helper()
	start := time.Now()
	conn, err := rueidisconn.Open(t.Context(), url, nil)
	if err == nil {
		conn.Close()
		t.Errorf("%s: opened, want an error", url)
		return
	}
	got := "url"
	switch {
	case errors.As(err, new(*redishold.ReplyError)):
		got = "refused"
	case errors.Is(err, driver.ErrNotExecuted):
		got = "unready"
	}
	if got != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got error %v (%s), want %q (%s)", url, err, got, text, kind)
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("%s: the error shows a password: %v", url, err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("%s: the error came after %v", url, took)
	}
}

const noServer = "127.0.0.1:1"

func TestOpenSentinel(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Sentinel, redistest.Password("secret"), redistest.SentinelPassword("watchsecret"))
	seeds := strings.Join(d.Seeds(), ",")
	const own = "?sentinel_password=watchsecret"
	mustLock(t, d.URL(), nil)
	mustLock(t, "redis+sentinel://:secret@"+d.Seeds()[0]+"/mymaster/0"+own, nil)
	mustLock(t, "redis-sentinel://default:secret@"+seeds+"/0?master=mymaster&sentinel_password=watchsecret", nil)
	mustLock(t, "valkey+sentinel://:secret@"+seeds+"/3?sentinelMasterId=mymaster&protocol=2&sentinel_password=watchsecret", nil)
	mustLock(t, "redis+sentinel://"+noServer+","+d.Seeds()[1]+"/mymaster", &rueidisconn.Options{Password: "secret", SentinelPassword: "watchsecret"})

	mustNotOpen(t, "redis+sentinel://:secret@"+seeds+"/other"+own, "url", `knows no master "other"`)
	mustNotOpen(t, "redis+sentinel://:secret@"+seeds+"/mymaster?sentinel_password=wrong", "refused", "check sentinel_username and sentinel_password")
	mustNotOpen(t, "redis+sentinel://:secret@"+seeds+"/mymaster", "refused", "NOAUTH")
	mustNotOpen(t, "redis+sentinel://:wrong@"+seeds+"/mymaster"+own, "refused", `master "mymaster" at `+d.Master("a").Addr())
	mustNotOpen(t, "redis+sentinel://:secret@"+d.Servers()[0].Addr()+"/mymaster"+own, "refused", "Sentinel at "+d.Servers()[0].Addr())
	mustNotOpen(t, "redis://:watchsecret@"+d.Seeds()[0], "url", "is a Sentinel")

	// Users with the rights that docs/deployments.md lists.
	for _, s := range d.Sentinels() {
		s.Do("ACL", "SETUSER", "watch", "reset", "on", ">w", "&*", "+sentinel", "+subscribe", "+unsubscribe", "+ping", "+hello", "+client|setname")
	}
	for _, s := range d.Servers() {
		s.Do("ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all", "-@dangerous", "+info", "+role")
		s.Do("ACL", "SETUSER", "norole", "reset", "on", ">secret", "~*", "&*", "+@all", "-role")
	}
	const watch = "?sentinel_username=watch&sentinel_password=w"
	mustLock(t, "redis+sentinel://app:secret@"+seeds+"/mymaster"+watch, nil)
	mustNotOpen(t, "redis+sentinel://norole:secret@"+seeds+"/mymaster"+watch, "refused", "NOPERM")

	d.Sentinels()[0].Kill()
	mustLock(t, d.URL(), nil)
	d.Master("a").Pause()
	mustNotOpen(t, d.URL(), "unready", "says the Sentinel at")
	d.Sentinels()[1].Kill()
	d.Sentinels()[2].Kill()
	mustNotOpen(t, d.URL(), "unready", strings.Join(d.Seeds(), ", "))
}

func TestOpenCluster(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Cluster, redistest.Password("secret"))
	seeds := d.Seeds()
	mustLock(t, d.URL(), nil)
	mustLock(t, "redis://:secret@"+seeds[0], nil)
	mustLock(t, "redis://:secret@"+seeds[0]+"?addr="+seeds[1]+"&protocol=2", nil)
	mustLock(t, "redis+cluster://:secret@"+seeds[2]+"/0", nil)
	mustLock(t, "valkey+cluster://:secret@"+noServer+","+seeds[1]+","+noServer, nil)
	mustLock(t, "redis://:secret@"+d.ReplicasOf(d.Master("a"))[0].Addr(), nil)

	noDatabase := "only clusters of Valkey 9 or newer"
	if redistest.Has(t, redistest.ClusterDatabases) {
		noDatabase = "no database 1" // unless cluster-databases says more
	}
	mustNotOpen(t, "redis://:secret@"+seeds[0]+"/1", "refused", noDatabase)
	mustNotOpen(t, "redis+cluster://:secret@"+seeds[0]+"/1", "refused", noDatabase)
	mustNotOpen(t, "redis+cluster://:secret@"+seeds[0]+","+seeds[1]+"/1", "refused", noDatabase)
	mustNotOpen(t, "redis+cluster://:wrong@"+seeds[0]+","+seeds[1], "refused", "WRONGPASS")
	mustNotOpen(t, "redis+cluster://"+seeds[0], "refused", "NOAUTH")
	mustNotOpen(t, "redis+cluster://:secret@"+noServer+","+noServer, "unready", noServer)
	mustNotOpen(t, "redis+sentinel://:secret@"+seeds[0]+"/mymaster", "refused", "Sentinel at "+seeds[0])
	// As with nodes in containers, of which only one has a port outside.
	gate := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != "gate:6379" {
			return nil, errors.New("no way to " + addr)
		}
		return (&net.Dialer{}).DialContext(ctx, network, seeds[0])
	}
	_, err := rueidisconn.Open(t.Context(), "redis+cluster://:secret@gate", &rueidisconn.Options{Dial: gate})
	if !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), "no way to 127.0.0.1:") {
		t.Errorf("nodes out of reach: got error %v", err)
	}

	for _, s := range d.Servers() {
		s.Do("ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-cluster")
	}
	mustNotOpen(t, "redis://blind:secret@"+seeds[0], "refused", "NOPERM")
}

func TestOpenOneServer(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Standalone, redistest.Password("secret"), redistest.UnixSocket())
	addr := d.Servers()[0].Addr()
	mustLock(t, d.URL(), nil)
	mustLock(t, "redis://:secret@"+addr+"/4", nil)
	mustLock(t, "unix://:secret@"+d.Servers()[0].Socket()+"?db=2", nil)
	mustNotOpen(t, "redis://:secret@"+addr+"/99", "refused", "no database 99")
	mustNotOpen(t, "redis+cluster://:secret@"+addr, "url", "no node of a cluster")
	mustNotOpen(t, "redis://:secret@"+addr+"?addr="+addr, "url", "no node of a cluster")
	mustNotOpen(t, "redis+sentinel://"+addr+"/mymaster", "refused", "NOAUTH")
	mustNotOpen(t, "redis+sentinel://"+addr+"/mymaster?sentinel_password=secret", "url", "is no Sentinel")

	unformed := redistest.Start(t, redistest.Conf("cluster-enabled yes"))
	mustNotOpen(t, "redis://"+unformed.Addr(), "unready", "not formed")
	mustNotOpen(t, "redis+cluster://"+unformed.Addr(), "unready", "not formed")
}

// The command line tool takes the same URLs.
func TestCLIOnDeployments(t *testing.T) {
	binary := buildCLI(t)
	for _, top := range []redistest.Topology{redistest.Sentinel, redistest.Cluster} {
		t.Run(string(top), func(t *testing.T) {
			t.Parallel()
			d := redistest.StartDeployment(t, top)
			out, err := exec.Command(binary, "run", "--url", d.URL(), "job", "--", "echo", "done").CombinedOutput()
			if err != nil || string(out) != "done\n" {
				t.Errorf("got %v and %q", err, out)
			}
			if n := d.Master("job").Int("EXISTS", "job"); n != 0 {
				t.Error("the lock was left behind")
			}
		})
	}
}

func TestOpenReplicated(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Replicated)
	mustLock(t, d.URL(), nil)
}

func TestOpenWithTLS(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.TLS())
	url := "rediss://" + server.TLSAddr()
	mustLock(t, url, &rueidisconn.Options{TLS: server.TLSConfig()})

	mustNotOpen(t, url, "unready", "unknown authority")
	stranger := server.TLSConfig()
	stranger.Certificates = nil
	if _, err := rueidisconn.Open(t.Context(), url, &rueidisconn.Options{TLS: stranger}); !errors.Is(err, driver.ErrNotExecuted) {
		t.Errorf("without a client certificate: got error %v", err)
	}
	if _, err := rueidisconn.Open(t.Context(), url, &rueidisconn.Options{TLS: &tls.Config{}}); err == nil {
		t.Error("the system's roots vouch for a certificate of a test")
	}
	mustNotOpen(t, "redis://"+server.TLSAddr(), "unready", server.TLSAddr())
}
