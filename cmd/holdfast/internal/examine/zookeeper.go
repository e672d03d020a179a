package examine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// maxOutstanding is how many requests may wait in a server without a warning.
const maxOutstanding = 1000

// ZooKeeper returns the Ask for servers. It sends them the commands srvr and conf: send returns
// the answer of a server to a command of four letters.
func ZooKeeper(servers []string, send func(ctx context.Context, server, command string) (string, error)) Ask {
	return func(ctx context.Context, o *doctor.Options) (Facts, error) {
		facts := Facts{Deployment: "ensemble"}
		var failed []error
		for _, server := range servers {
			ctx, cancel := context.WithTimeout(ctx, askLimit)
			said, err := send(ctx, server, "srvr")
			var conf string
			if err == nil {
				conf, err = send(ctx, server, "conf")
			}
			cancel()
			if err != nil {
				failed = append(failed, err)
				facts.add(doctor.Server{Address: server}, noAnswer(err))
				continue
			}
			facts.addZooKeeper(server, said, conf, o.TTL)
		}
		if len(failed) == len(servers) {
			return Facts{}, errors.Join(failed...)
		}
		return facts, nil
	}
}

func (f *Facts) addZooKeeper(server, said, conf string, ttl time.Duration) {
	fields := zooKeeperFields(said, ": ")
	role := fields["Mode"]
	if role == "standalone" {
		f.Deployment = role
	}
	s := doctor.Server{Address: server, Role: role}
	if v, _, _ := strings.Cut(fields["Zookeeper version"], "-"); v != "" {
		s.Version = "ZooKeeper " + v
	}
	f.add(s, zooKeeperState(said, fields), zooKeeperSession(zooKeeperFields(conf, "="), ttl))
}

// zooKeeperFields returns the values of text by their names. Each line has a name and a value
// with the text between in the middle.
func zooKeeperFields(text, between string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), between); ok {
			fields[name] = value
		}
	}
	return fields
}

// zooKeeperState judges the answer to srvr.
func zooKeeperState(said string, fields map[string]string) doctor.Finding {
	switch mode := fields["Mode"]; {
	case mode == "" && strings.Contains(said, "not currently serving"):
		return because(saw("state", doctor.Danger, "it does not serve: it is not part of a majority"),
			"no lock is granted or renewed without a majority", "start the servers that are down, or open the way between them")
	case mode == "":
		return because(saw("state", doctor.Unknown, "the server does not tell its state"),
			"", "4lw.commands.whitelist=srvr,conf in its configuration")
	case strings.HasPrefix(mode, "read-only"):
		return because(saw("state", doctor.Danger, "it is read-only: it has lost the majority"),
			"no lock is granted or renewed without a majority", "start the servers that are down")
	case mode == "standalone":
		return members("state", 1)
	default:
		waiting, _ := strconv.Atoi(fields["Outstanding"])
		return because(saw("state", worse(waiting > maxOutstanding, doctor.Warning), "it is a %s; %d requests wait in it", mode, waiting),
			"heartbeats wait with the other requests, and sessions end", "fewer clients, or a quicker disk for its log")
	}
}

// zooKeeperSession judges whether a server allows sessions as long as ttl. A server changes
// the length of a session to fit its limits, without an error.
func zooKeeperSession(conf map[string]string, ttl time.Duration) doctor.Finding {
	limit := func(name string) time.Duration {
		ms, _ := strconv.ParseInt(conf[name], 10, 64)
		return time.Duration(ms) * time.Millisecond
	}
	least, most := limit("minSessionTimeout"), limit("maxSessionTimeout")
	f := saw("session", doctor.Warning, "sessions last from %v to %v; the lease is %v", least, most, ttl)
	switch {
	case most == 0:
		return because(saw("session", doctor.Unknown, "the server does not tell how long sessions may be"),
			"", "4lw.commands.whitelist=srvr,conf in its configuration")
	case ttl < least:
		return because(f,
			"after a crash a lock stays taken for longer than the lease", fmt.Sprintf("a lease of %v, or a smaller minSessionTimeout", least))
	case ttl > most:
		return because(f,
			"a lock is lost earlier than its holder asked for", fmt.Sprintf("a lease of %v, or a larger maxSessionTimeout", most))
	}
	f.Severity = doctor.OK
	return f
}
