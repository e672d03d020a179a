package redistest

import (
	"fmt"
	"strconv"
	"time"
)

// CutReplication cuts the replicas off from master, and they cannot come back:
// the user as which they log in is switched off there, and their links are
// closed. master goes on to take writes; they are lost if it dies or is deposed
// before Heal. To a single server it does nothing.
//
// A graceful failover of a cluster or of a replicated deployment is not possible
// meanwhile, as the replica has to be in sync.
func (d *Deployment) CutReplication(master *Server) {
	d.helper()
	if d.top == Standalone {
		return
	}
	if err := master.admit(false); err != nil {
		d.fail(err)
	}
}

// AwaitReplicas returns when n replicas have acknowledged a write that it makes. A
// master may call a replica online before: a diskless one up to a second before it
// sends it writes, and the replica of a Valkey 9 acknowledges none for a second.
// After 10 s it fails the test.
func (a Admin) AwaitReplicas(n int) {
	a.helper()
	const limit = 10 * time.Second
	c := a.within(limit + replyLimit).mustDial()
	defer c.close()
	if err, failed := c.do("SET", "await-replicas", "1", "PX", "1").(error); failed {
		a.fail(err)
	}
	reply := c.do("WAIT", strconv.Itoa(n), strconv.FormatInt(limit.Milliseconds(), 10))
	if got, ok := reply.(int64); !ok || got < int64(n) {
		a.fail(fmt.Errorf("got %v replicas within %v, want %d: %v", reply, limit, n, a.Do("INFO", "replication")))
	}
}

// admit says whether s takes replicas. Those that are connected stay so when
// their user is switched off; so there is a CLIENT KILL.
func (s *Server) admit(on bool) error {
	if on {
		return s.command("ACL", "SETUSER", replicator, "on")
	}
	if err := s.command("ACL", "SETUSER", replicator, "off"); err != nil {
		return err
	}
	return s.command("CLIENT", "KILL", "TYPE", "replica")
}

// command sends a command of which only the success matters.
func (s *Server) command(args ...string) error {
	if err, ok := s.Do(args...).(error); ok {
		return fmt.Errorf("%s: %q: %w", s.addr, args, err)
	}
	return nil
}

// follow makes s a replica of master, or a master if that is nil.
func (s *Server) follow(master *Server) error {
	host, port := "no", "one"
	if master != nil {
		host, port = split(master.peer)
	}
	if err := s.command("REPLICAOF", host, port); err != nil {
		return err
	}
	return s.remember()
}

// restartAs starts s as a replica of master, or as a master if that is nil.
func (s *Server) restartAs(master *Server) error {
	host, port := "no", "one"
	if master != nil {
		host, port = split(master.peer)
	}
	if err := s.restart("--replicaof", host, port); err != nil {
		return err
	}
	return s.remember()
}

// remember makes a Restart keep whose replica s is. Sentinels do the same.
func (s *Server) remember() error { return s.command("CONFIG", "REWRITE") }
