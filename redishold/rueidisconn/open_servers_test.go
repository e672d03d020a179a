package rueidisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/redishold"
)

// kindOf sorts an error of Open as its documentation does.
func kindOf(err error) string {
	switch {
	case err == nil:
		return "none"
	case errors.As(err, new(*redishold.ReplyError)):
		return "refused"
	case errors.Is(err, driver.ErrNotExecuted):
		return "not reached"
	default:
		return "url"
	}
}

func refuses(prefix, reply string) answer {
	return func(command string) string {
		if strings.HasPrefix(command, prefix) {
			return reply
		}
		return ""
	}
}

func TestOpenTellsWhatIsWrong(t *testing.T) {
	server := serve(t, nil, plain)
	locked := serve(t, nil, refuses("HELLO", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"))
	replica := serve(t, nil, refuses("ROLE", "*3\r\n$5\r\nslave\r\n:0\r\n*0\r\n"))
	gone, mute := nobody(t), silent(t)
	unformed := serve(t, nil, func(command string) string {
		switch {
		case strings.HasPrefix(command, "HELLO"):
			return hello("cluster")
		case command == "CLUSTER SLOTS":
			return "*0\r\n"
		case strings.HasPrefix(command, "SELECT"):
			return "-ERR SELECT is not allowed in cluster mode\r\n"
		default:
			return ""
		}
	})
	secretive := serve(t, nil, func(command string) string {
		switch {
		case strings.HasPrefix(command, "HELLO"):
			return hello("cluster")
		case strings.HasPrefix(command, "CLUSTER"):
			return "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n"
		default:
			return ""
		}
	})
	lean := serve(t, nil, func(command string) string { // as a proxy that knows scripts
		if name, _, _ := strings.Cut(command, " "); name != "ROLE" { // which rueidis asks a master for
			return "-ERR unknown command '" + name + "'\r\n"
		}
		return ""
	})
	website := serve(t, nil, func(string) string { return "<html>\r\n" })
	closes := serve(t, &tls.Config{MinVersion: tls.VersionTLS12}, plain) // which has no certificate, and ends every handshake
	knows := func(master string) string { return serve(t, nil, sentinel("mymaster", master)) }
	guarded := serve(t, nil, refuses("HELLO", "-NOAUTH HELLO must be called with the client already authenticated\r\n"))

	for _, test := range []struct{ name, url, kind, want string }{
		{"server", "redis://" + server, "none", ""},
		{"a website", "redis://:secret@" + website, "not reached", "is not a Redis"},
		{"TLS to a plain port", "rediss://:secret@" + server, "not reached", "use redis:// in place of rediss://"},
		{"without TLS to a port for it", "redis://:secret@" + closes, "not reached", "(rediss://)"},
		{"without CLIENT", "redis://" + lean, "none", ""},
		{"without CLIENT, RESP2", "redis://" + lean + "?protocol=2&client_name=mine", "none", ""},
		{"master without CLIENT", "redis+sentinel://" + knows(lean) + "/mymaster", "none", ""},
		{"wrong password", "redis://:secret@" + locked, "refused", "WRONGPASS"},
		{"nobody", "redis://:secret@" + gone, "not reached", gone},
		{"silent", "redis://:secret@" + mute, "not reached", "no answer within 300ms"},
		{"a Sentinel", "redis://" + knows(server), "url", "is a Sentinel: use redis+sentinel://"},

		{"forced on a server", "redis+cluster://" + server, "url", "no node of a cluster"},
		{"forced on servers", "redis+cluster://" + server + "," + server, "url", "no node of a cluster"},
		{"addr on a server", "redis://" + server + "?addr=" + server, "url", "no node of a cluster"},
		{"no node", "redis+cluster://:secret@" + gone + "," + gone, "not reached", "redis cluster at " + gone},
		{"silent node", "redis+cluster://" + gone + "," + mute, "not reached", mute},
		{"cluster not formed", "redis://" + unformed, "not reached", "not formed"},
		{"cluster not formed", "redis+cluster://" + gone + "," + unformed, "not reached", "not formed"},
		{"database of a cluster", "redis://:secret@" + unformed + "/3", "refused", "only clusters of Valkey 9 or newer"},
		{"database of a cluster", "redis+cluster://:secret@" + unformed + "," + unformed + "/3", "refused", "only clusters of Valkey 9 or newer"},
		{"slots untold", "redis://" + secretive, "refused", "cluster|slots"},

		{"Sentinel", "redis+sentinel://:secret@" + knows(server) + "/mymaster", "none", ""},
		{"one of three", "redis+sentinel://" + gone + "," + mute + "," + knows(server) + "/mymaster", "none", ""},
		{"other name", "redis+sentinel://:secret@" + knows(server) + "/other", "url", `knows no master "other"`},
		{"no Sentinel", "redis+sentinel://" + server + "/mymaster", "url", "is no Sentinel"},
		{"all gone", "redis+sentinel://:secret@" + gone + "," + gone + "/mymaster", "not reached", "Sentinel at " + gone + ", " + gone},
		{"all silent", "redis+sentinel://:secret@" + mute + "/mymaster", "not reached", "no answer within"},
		{"Sentinel wants a password", "redis+sentinel://:secret@" + gone + "," + guarded + "/mymaster", "refused", "check sentinel_username"},
		{"master gone", "redis+sentinel://:secret@" + knows(gone) + "/mymaster", "not reached", `master "mymaster" at ` + gone + " (says the Sentinel at "},
		{"master's password", "redis+sentinel://:secret@" + knows(locked) + "/mymaster", "refused", `master "mymaster" at ` + locked},
		{"no master any more", "redis+sentinel://" + knows(replica) + "/mymaster", "not reached", "not master"},
	} {
		start := await.NewWatch(t)
		conn, err := Open(t.Context(), test.url, &Options{DialTimeout: 300 * time.Millisecond, SentinelPassword: "sentinelsecret"})
		if conn != nil {
			conn.Close()
		}
		if got := kindOf(err); got != test.kind || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v (%s), want %q (%s)", test.name, err, got, test.want, test.kind)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows a password: %v", test.name, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: the error passes for the end of the caller's context: %v", test.name, err)
		}
		if took := start.Took(); took > 4*time.Second {
			t.Errorf("%s: took %v", test.name, took)
		}
	}
}

// Sentinels and data nodes have passwords of their own.
func TestSentinelCredentials(t *testing.T) {
	for _, test := range []struct {
		query string
		o     *Options
	}{
		{"?sentinel_username=watch&sentinel_password=spw", &Options{Username: "app", Password: "pw"}},
		{"", &Options{Username: "app", Password: "pw", SentinelUsername: "watch", SentinelPassword: "spw"}},
		{"?sentinel_username=other&sentinel_password=other", &Options{Username: "app", Password: "pw", SentinelUsername: "watch", SentinelPassword: "spw"}},
	} {
		only := func(user string, say answer) answer {
			return func(command string) string {
				if strings.HasPrefix(command, "HELLO") && !strings.HasPrefix(command, "HELLO 3 AUTH "+user+" ") {
					return "-WRONGPASS\r\n"
				}
				return say(command)
			}
		}
		addr := serve(t, nil, only("watch spw", sentinel("m", serve(t, nil, only("app pw", plain)))))
		mustOpen(t, "redis+sentinel://"+addr+"/m"+test.query, test.o)
		mustOpen(t, "redis+sentinel://app:pw@"+addr+"/m"+test.query, &Options{SentinelUsername: "watch", SentinelPassword: "spw"})
	}
}

// Whatever servers are silent, Open ends with its context.
func TestOpenOfSilentServersEndsWithContext(t *testing.T) {
	mute := silent(t)
	for _, url := range []string{
		"redis+cluster://" + mute + "," + mute, "redis+sentinel://" + mute + "," + mute + "/m",
		"redis+sentinel://" + serve(t, nil, sentinel("m", mute)) + "/m",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := await.NewWatch(t)
		_, err := Open(ctx, url, &Options{DialTimeout: 5 * time.Second})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrNotExecuted) {
			t.Errorf("%s: got error %v", url, err)
		}
		if took := start.Took(); took > 2*time.Second {
			t.Errorf("%s: took %v", url, took)
		}
	}
}

func TestOpenDoesNotWaitForSilentSentinels(t *testing.T) {
	good, mute := serve(t, nil, sentinel("m", serve(t, nil, plain))), silent(t)
	start := await.NewWatch(t)
	mustOpen(t, "redis+sentinel://"+mute+","+mute+","+good+"/m", &Options{DialTimeout: 20 * time.Second, PingTimeout: 20 * time.Second})
	if took := start.Took(); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}
