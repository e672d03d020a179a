//go:build unix

package clitest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
	"github.com/holdfast-go/holdfast/internal/must"
)

// TestCLILacking has every command of the tool work, or say what it lacks, on servers
// without what is only a label, advice or a picture for people.
func TestCLILacking(t *testing.T) {
	binary := must.Build(t)
	const lacks = "redis refuses SCAN, which finds locks"
	for name, start := range map[string]func(*testing.T) (addr string, l storecli.Lacking){
		"Proxy": func(t *testing.T) (string, storecli.Lacking) {
			proxy := faultproxy.Start(t, redistest.Start(t).Addr())
			proxy.On(faultproxy.Except(faultproxy.Command("EVALSHA", "EVAL", "SCRIPT")), faultproxy.Unknown(), faultproxy.Always())
			return proxy.Addr(), storecli.Lacking{}
		},
		"Server": func(t *testing.T) (string, storecli.Lacking) {
			var lines []string
			for _, command := range []string{
				"HELLO", "CLIENT", "SCAN", "SUBSCRIBE", "SSUBSCRIBE", "PUBSUB", "PUBLISH", "SPUBLISH", "CLUSTER", "SLOWLOG",
			} {
				lines = append(lines, "rename-command "+command+` ""`)
			}
			proxy := faultproxy.Start(t, redistest.Start(t, redistest.Conf(lines...)).Addr())
			proxy.On(faultproxy.Command("PING", "INFO", "CONFIG"), faultproxy.Unknown(), faultproxy.Always()) // which redistest needs
			return proxy.Addr(), storecli.Lacking{NoScan: lacks}
		},
		"User": func(t *testing.T) (string, storecli.Lacking) {
			server := redistest.Start(t)
			server.Do("ACL", "SETUSER", "lean", "on", ">secret", "~*", "&*", "+@all", "-client", "-info", "-config", "-scan", "-subscribe", "-ssubscribe", "-pubsub", "-cluster", "-ping", "-slowlog")
			return server.Addr(), storecli.Lacking{Login: "lean:secret@", NoScan: "ACL SETUSER <user> +scan", NoRights: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, l := start(t)
			storecli.Built(t, storecli.Store{
				URL:     func(addr string) string { return "redis://" + l.Login + addr + "?protocol=2" },
				Network: "tcp", Addr: addr, Name: "Redis", Backend: "redis",
			}, binary).RunLacking(l)
		})
	}
}
