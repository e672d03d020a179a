package demo

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/internal/plural"
	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// introduce says what is going to happen, and how to watch it.
func (d *demo) introduce() {
	d.print(d.paint(bold, "Holdfast demo") + "\n")
	d.printf("A shop has %s. %s in %s want one item each, all at the same time.",
		plural.Count(d.Items, "item"), plural.Count(d.Buyers, "buyer"), plural.Count(d.Processes, "process"))
	if d.Locks.URL == "" {
		d.printf("Redis: %s", d.server)
	} else {
		d.printf("Locks: %s. The shop keeps its stock in this process.", redisurl.Redacted(d.Locks.URL))
	}
	d.print("\n")
	d.printf("To see the lock yourself, use another terminal (in round 3 a process holds the lock for %s):", d.Look)
	for _, line := range d.commands() {
		d.printf("%s", line)
	}
}

// commands returns what a user can type to see the lock in its store.
func (d *demo) commands() []string {
	name := d.shop.keys.lock()
	kind, _ := open.KindOf(cmp.Or(d.Locks.URL, d.server.access.URL))
	parts, _ := redisurl.Cut(d.Locks.URL)
	path, query, _ := strings.Cut(parts.Tail, "?")
	switch kind {
	case open.Redis:
		cli := "  " + redisCLI(d.server.access)
		lines := []string{cli + " HGETALL " + name, cli + " PTTL " + name, cli + " SUBSCRIBE 'redisson_lock__channel:{" + name + "}'"}
		if d.server.StandIn == nil { // a stand-in does not know MONITOR
			lines = append(lines, cli+" MONITOR      (not on a busy server)")
		}
		return lines
	case open.Etcd:
		return []string{fmt.Sprintf("  etcdctl --endpoints=%s watch --prefix %s/", parts.Hosts, name)}
	case open.ZooKeeper:
		return []string{fmt.Sprintf("  zkCli.sh -server %s ls %s/%s", parts.Hosts, strings.TrimSuffix(path, "/"), name)}
	}
	values, _ := url.ParseQuery(query)
	return []string{
		fmt.Sprintf("  SELECT * FROM %s WHERE name = '%s';", cmp.Or(values.Get("table"), "holdfast_locks"), name),
		fmt.Sprintf("That row stays after the demo, because %s counts the tokens in it.", kind.Title()),
	}
}

// redisCLI returns the redis-cli command line for a Redis, without the password:
// --askpass asks for it.
func redisCLI(a open.Access) string {
	u, _, err := redisurl.Parse(a.URL)
	if err != nil {
		return "redis-cli"
	}
	server := url.URL{Scheme: strings.Replace(u.Scheme, "valkey", "redis", 1), Host: u.Host, Path: u.Path}
	args := []string{"redis-cli", "-u", server.String()}
	if u.Scheme == "unix" {
		args = []string{"redis-cli", "-s", u.Path}
	}
	for _, flag := range [][2]string{
		{"--user", cmp.Or(a.Username, u.User.Username())}, {"--cacert", a.CACert}, {"--cert", a.Cert}, {"--key", a.Key}, {"--sni", a.ServerName},
	} {
		if flag[1] != "" {
			args = append(args, flag[0], flag[1])
		}
	}
	if a.Insecure {
		args = append(args, "--insecure")
	}
	if _, ok := u.User.Password(); ok || a.Password != "" {
		args = append(args, "--askpass")
	}
	return strings.Join(args, " ")
}
