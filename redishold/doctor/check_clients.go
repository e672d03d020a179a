package doctor

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

func checkClients(_ *exam, s *server) Finding {
	connected, ok := s.count("connected_clients")
	most, known := s.count("maxclients")
	if !known {
		most, known = s.setting("maxclients")
	}
	f := Finding{
		ID: "clients", Severity: Warning, Saw: fmt.Sprintf("%d of %d connections are in use", connected, most),
		Why:    "When there are no more, programs that start or reconnect cannot lock, nor renew.",
		Remedy: "CONFIG SET maxclients <more>, or find who keeps them open: CLIENT LIST",
	}
	switch rejected, _ := s.count("rejected_connections"); {
	case !ok || !known || most == 0:
		return untold("clients", "how many connections it allows", "+info +config|get")
	case connected*5 >= most*4:
		return f
	case rejected > 0:
		f.Severity = Note
		f.Saw = fmt.Sprintf("it has turned away %d connections since its start, for want of room (maxclients %d)", rejected, most)
		return f
	}
	return Finding{ID: "clients", Saw: f.Saw}
}

// checkSettings passes on what the Conn thinks of its client. Not every Conn can
// read the settings.
func checkSettings(e *exam) []Finding {
	adviser, ok := e.conn.(redishold.Adviser)
	if !ok {
		return nil
	}
	var findings []Finding
	for _, a := range adviser.Advice() {
		findings = append(findings, Finding{
			ID: "client-settings", Severity: Warning, Saw: fmt.Sprintf("%s of the client is %s", a.Setting, a.Is),
			Why: a.Why, Remedy: fmt.Sprintf("%s: %s", a.Setting, a.Better),
		})
	}
	if findings == nil {
		return []Finding{{ID: "client-settings", Saw: "the client finds a new master soon"}}
	}
	return findings
}

func checkIdle(e *exam, s *server) Finding {
	seconds, ok := s.setting("timeout")
	limit := time.Duration(seconds) * time.Second
	switch {
	case !ok:
		return untold("idle-timeout", "the setting timeout", "+config|get")
	case seconds == 0 || limit > e.options.TTL:
		return Finding{ID: "idle-timeout", Saw: "idle connections are left alone long enough"}
	}
	return Finding{
		ID: "idle-timeout", Severity: Note, Saw: fmt.Sprintf("connections that are idle for %v are closed (timeout %d)", limit, seconds),
		Why:    "Between two locks a program has to connect again, and the first call after a silence may break.",
		Remedy: "CONFIG SET timeout 0, with tcp-keepalive against dead clients",
	}
}

func checkKeepAlive(_ *exam, s *server) Finding {
	seconds, ok := s.setting("tcp-keepalive")
	switch {
	case !ok:
		return untold("keepalive", "the setting tcp-keepalive", "+config|get")
	case seconds > 0:
		return Finding{ID: "keepalive", Saw: "dead clients are noticed"}
	}
	return Finding{
		ID: "keepalive", Severity: Note, Saw: "tcp-keepalive is 0",
		Why:    "Connections of machines that vanished stay for ever, and use up maxclients.",
		Remedy: "CONFIG SET tcp-keepalive 300",
	}
}

func checkBuffer(_ *exam, s *server) Finding {
	const enough = 1 << 20
	hard, soft, ok := parseBufferLimit(s.config["client-output-buffer-limit"])
	switch {
	case !ok:
		return untold("pubsub-buffer", "client-output-buffer-limit", "+config|get")
	case (hard == 0 || hard >= enough) && (soft == 0 || soft >= enough/4):
		return Finding{ID: "pubsub-buffer", Saw: "subscribers have room for messages"}
	}
	return Finding{
		ID: "pubsub-buffer", Severity: Warning, Saw: fmt.Sprintf("subscribers are cut off at %s, or %s for a while", size(hard), size(soft)),
		Why:    "Programs that wait hear of a release by such a message. Where they are cut off they find out up to a second later.",
		Remedy: `CONFIG SET client-output-buffer-limit "pubsub 33554432 8388608 60"`,
	}
}

func checkEvents(_ *exam, s *server) Finding {
	events, ok := s.config["notify-keyspace-events"]
	switch {
	case !ok:
		return untold("keyspace-events", "notify-keyspace-events", "+config|get")
	case events == "":
		return Finding{ID: "keyspace-events", Saw: "no events of keys are published"}
	}
	return Finding{
		ID: "keyspace-events", Severity: Note, Saw: fmt.Sprintf("events of keys are published (notify-keyspace-events %s)", events),
		Why:    "Locks do not use them; every lock, renewal and release costs the server some messages more.",
		Remedy: `CONFIG SET notify-keyspace-events "", if nothing else needs them`,
	}
}
