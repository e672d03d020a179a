package deploytest

import (
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, dial.Sleepers()...) }

// deployments are the ways of running Redis that the documentation promises.
func deployments() map[string]func(t *testing.T) place {
	return map[string]func(t *testing.T) place{
		"standalone":  func(t *testing.T) place { return at(redistest.StartDeployment(t, redistest.Standalone)) },
		"replicated":  func(t *testing.T) place { return at(redistest.StartDeployment(t, redistest.Replicated)) },
		"sentinel":    func(t *testing.T) place { return at(redistest.StartDeployment(t, redistest.Sentinel)) },
		"cluster":     func(t *testing.T) place { return at(redistest.StartDeployment(t, redistest.Cluster)) },
		"unix socket": unixSocket,
		"TLS":         overTLS,
		"ACL user":    restricted,
		"ACL user in a cluster": func(t *testing.T) place {
			return restrict(t, redistest.StartDeployment(t, redistest.Cluster))
		},
	}
}

// at is the place of a deployment that lets everybody in.
func at(d *redistest.Deployment) place {
	p := place{topology: d.Topology(), url: d.URL(), addrs: d.Seeds()}
	if p.topology == redistest.Replicated {
		p.addrs = []string{d.Master("any").Addr()}
	}
	return p
}

func unixSocket(t *testing.T) place {
	s := redistest.Start(t, redistest.UnixSocket())
	return place{url: "unix://" + s.Socket(), socket: s.Socket()}
}

func overTLS(t *testing.T) place {
	s := redistest.Start(t, redistest.TLS())
	return place{url: "rediss://" + s.TLSAddr(), addrs: []string{s.TLSAddr()}, tls: s.TLSConfig()}
}

func restricted(t *testing.T) place {
	return restrict(t, redistest.StartDeployment(t, redistest.Standalone))
}

// restrict makes a user with the rights that the documentation lists for all
// kinds of locks under one prefix, and nothing else.
func restrict(t *testing.T, d *redistest.Deployment) place {
	t.Helper()
	for _, s := range d.Servers() {
		args := append([]string{"ACL", "SETUSER", "app", "reset", "resetchannels", "on", ">s3cret"}, documentedRights(t)...)
		if err, ok := s.Do(args...).(error); ok {
			t.Fatal(err)
		}
	}
	p := at(d)
	p.username, p.password = "app", "s3cret"
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(p.username, p.password)
	p.url = u.String()
	return p
}

// documentedRights are all the rules of docs/redis.md, of whatever kind of lock.
func documentedRights(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "\n## Permissions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rule := regexp.MustCompile(`^([~&][a-z{][a-z_:{]*\*|\+[a-z|]+)$`)
	unknown := []string{"+client|setinfo"} // before Redis 7.2, and not needed
	if !redistest.Has(t, redistest.ShardedChannels) {
		unknown = append(unknown, "+spublish", "+ssubscribe", "+sunsubscribe")
	}
	var rules []string
	for _, word := range strings.Fields(strings.NewReplacer("`", " ", "'", " ").Replace(section)) {
		if rule.MatchString(word) && !slices.Contains(unknown, word) {
			rules = append(rules, word)
		}
	}
	if len(rules) < 20 {
		t.Fatalf("docs/redis.md lists only %q", rules)
	}
	return rules
}

// Every kind of lock works, through every client, wherever Redis runs.
func TestEveryDeployment(t *testing.T) {
	for name, start := range deployments() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			clients := ways()
			clients["go-redis client with its defaults"] = byGoRedisWithDefaults
			for name, w := range clients {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					prefix := "app:" + strings.ReplaceAll(name, " ", "") + ":"
					for protocol, o := range map[string]redishold.Options{
						"redisson":  {KeyPrefix: prefix},
						"plain":     {KeyPrefix: prefix + "plain:", Layout: redishold.Plain},
						"timestamp": {KeyPrefix: prefix + "stamp:", Layout: redishold.Timestamp},
					} {
						ours, theirs := openWatched(t, w, p, o), openWatched(t, w, p, o)
						useMutexes(t, ours, theirs)
						if protocol == "redisson" {
							useOtherKinds(t, ours, theirs)
						}
						useLog(t, openStore(t, w, p, o), openStore(t, w, p, o))
					}
				})
			}
		})
	}
}
