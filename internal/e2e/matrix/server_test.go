package matrix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// Faults of processes and of servers.

// hungServer: nothing is answered for longer than a lease.
func hungServer(s *scenario) {
	c, o := s.client(), s.client()
	server := s.keepers(s.name)[0]
	s.silent(server.Pause, server.Resume, c, o, 2*time.Second)
}

// hungMinority: two servers of five.
func hungMinority(s *scenario) {
	s.minority(func(server *redistest.Server) { server.Pause() }, func(server *redistest.Server) { server.Resume() })
}

// minority is a fault of two servers of five: nothing is to be seen of it.
func (s *scenario) minority(begin, end func(*redistest.Server)) {
	s.Helper()
	c, o := s.client(), s.client()
	s.wantGone(patience) // a server that still has another's lock is left out for good
	k := c.take()
	// A majority counts what it had when it was proved the last time: at first
	// those who were quickest.
	c.answered(k, 2*len(s.alone)+1)
	if !s.everywhere() {
		s.Fatal("not all servers have the lock")
	}
	for _, server := range s.alone[:2] {
		begin(server)
	}
	k.stays(s.ttl + s.ttl/3)
	o.wantBusy()
	k.mustUnlock()
	next := o.take()
	next.stays(s.ttl / 2)
	for _, server := range s.alone[:2] {
		end(server)
	}
	next.mustUnlock()
}

// everywhere says that all servers have the lock, of the same owner.
func (s *scenario) everywhere() bool {
	first := s.alone[0].Map("HGETALL", s.name)
	return len(first) == 1 && !slices.ContainsFunc(s.alone[1:], func(server *redistest.Server) bool {
		return !maps.Equal(server.Map("HGETALL", s.name), first)
	})
}

// afterPause is how soon a process that runs again knows of its loss, net of the
// time in which its threads wait for a processor.
const afterPause = 5 * time.Millisecond

// stoppedHolder: the holder's process stands still for longer than its lease.
func stoppedHolder(s *scenario) {
	o := s.other()
	p := s.holder()
	p.Pause()
	next := o.takeRival()
	p.within("notified after the pause", p.resume(), afterPause)
	next.stays(s.ttl / 3)
	next.mustUnlock()
}

// killedHolder: the holder's process is gone.
func killedHolder(s *scenario) {
	o := s.other()
	p := s.holder()
	p.kill()
	killed := time.Now()
	next := o.takeRival()
	s.within("free again", time.Since(killed), s.on.freeAfter(s.ttl))
	s.waited(time.Since(killed), s.ttl/2) // it was renewed a third of its TTL ago at most
	next.mustUnlock()
}

// emptyRestart: the server comes back without its data.
func emptyRestart(s *scenario) {
	c, o := s.client(), s.other()
	k := c.take()
	c.renewed(k, 1) // there is time until the next
	killed := time.Now()
	for _, server := range s.alone {
		server.Kill()
	}
	for _, server := range s.alone {
		server.Restart()
	}
	next := o.take()
	k.lost(killed, time.Since(killed)+s.ttl/3+call)
	next.stays(s.ttl / 3)
	next.mustUnlock()
}

// restart: the server comes back with its data.
func restart(s *scenario) {
	s.alone = []*redistest.Server{redistest.Start(s, redistest.AOF())}
	c, o := s.client(), s.other()
	k := c.take()
	s.alone[0].Kill()
	s.alone[0].Restart()
	o.wantBusy()
	k.stays(s.ttl)
	s.wantHeld()
	k.mustUnlock()
}

// forgottenScripts: SCRIPT FLUSH before each step.
func forgottenScripts(s *scenario) {
	c := s.client()
	flush := func() {
		for _, server := range s.masters() {
			server.FlushScripts()
		}
	}
	flush()
	k := c.take()
	flush()
	k.stays(s.ttl)
	flush()
	k.mustUnlock()
}

// fullServer: no more memory.
func fullServer(s *scenario) {
	c := s.client()
	k := c.take()
	s.Cleanup(func() { full(s, false) }) // also where it fails in between
	full(s, true)
	name := s.name
	s.name += "-new"
	asked := time.Now()
	_, err := c.try(s.bounded())
	s.within("refused", time.Since(asked), 500*time.Millisecond)
	if !errors.Is(err, driver.ErrRefused) {
		s.Errorf("got %v, want ErrRefused", err)
	}
	s.wantGone(0)
	s.name = name
	if k.ctx != nil {
		k.stays(s.ttl + s.ttl/3)
	}
	if k.again != nil {
		if err := k.again(); err != nil {
			s.Errorf("re-entry: %v", err)
		}
	}
	k.mustUnlock()
	full(s, false)
}

func full(s *scenario, on bool) {
	limit := "0"
	if on {
		limit = "1"
	}
	for _, server := range s.servers() {
		server.Do("CONFIG", "SET", "maxmemory", limit)
	}
}

func fullMinority(s *scenario) {
	s.minority(
		func(server *redistest.Server) { server.Do("CONFIG", "SET", "maxmemory", "1") },
		func(server *redistest.Server) { server.Do("CONFIG", "SET", "maxmemory", "0") },
	)
}

// goneLock: the record of a held lock is removed; another gets the lock before
// the holder knows.
func (s *scenario) goneLock(remove func(c *client)) {
	s.Helper()
	c, o := s.client(), s.other()
	k := c.take()
	c.renewed(k, 1) // there is time until the next
	before := c.silent.Load()
	remove(o)
	removed := time.Now()
	next := o.take()
	k.awaitLoss()
	bound := s.ttl/3 + call
	if c.silent.Load() > before { // the server answers always, so the machine stood still: there is another renewal
		s.Logf("a renewal had no answer")
		bound += s.ttl/10 + call
	}
	k.lost(removed, bound)
	next.stays(s.ttl / 3)
	next.mustUnlock()
}

// removedLock: by hand, with all others, and on purpose.
func removedLock(s *scenario) {
	s.goneLock(func(*client) {
		for _, server := range s.keepers(s.name) {
			server.Do("DEL", s.name)
		}
	})
	s.goneLock(func(*client) {
		for _, server := range s.masters() {
			server.Do("FLUSHALL")
		}
	})
	s.goneLock((*client).force)
}

// force ends the hold of the only holder.
func (c *client) force() {
	c.Helper()
	source := c.store.Backend.(admin.Source)
	records, err := source.Get(c.bounded(), c.name)
	if err != nil || records[0].Holders != 1 {
		c.Fatalf("Get: %v, %v", records, err)
	}
	if err := source.ForceUnlock(c.bounded(), c.name, records[0].Holds[0].Holder, "stuck"); err != nil {
		c.Fatal(err)
	}
}

func evictedLock(s *scenario) {
	s.goneLock(func(*client) {
		for _, server := range s.keepers(s.name) {
			s.evict(server)
		}
	})
}

// evict makes the server drop the lock to free memory.
func (s *scenario) evict(server *redistest.Server) {
	s.Cleanup(func() {
		server.Do("CONFIG", "SET", "maxmemory", "0")
		server.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	})
	server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	server.Do("CONFIG", "SET", "maxmemory", "1")
	server.Do("SET", "more", "x", "PX", "5000") // makes the server look for room
	if !s.until(time.Second, func() bool { return server.Int("EXISTS", s.name) == 0 }) {
		s.Errorf("%s did not evict the lock", server.Addr())
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	server.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
}

func evictedMinority(s *scenario) { s.minority(s.evict, func(*redistest.Server) {}) }

func deletedMinority(s *scenario) {
	s.minority(func(server *redistest.Server) { server.Do("DEL", s.name) }, func(*redistest.Server) {})
}

// rightsRevoked: of commands, then of channels.
func rightsRevoked(s *scenario) {
	c, o := s.client(), s.other()
	s.Cleanup(func() { // also where it fails in between
		for _, server := range s.servers() {
			server.Do("ACL", "SETUSER", "default", "+@all", "allchannels")
		}
	})
	for _, command := range []string{"hset", "pexpire", "set", "exists", "time"} {
		for _, server := range s.servers() {
			server.Do("ACL", "SETUSER", "default", "-"+command)
		}
		asked := time.Now()
		_, err := c.try(s.bounded())
		s.within("refused without "+command, time.Since(asked), 500*time.Millisecond)
		if !errors.Is(err, driver.ErrRefused) {
			s.Errorf("without %s: got %v, want ErrRefused", command, err)
		}
		for _, server := range s.servers() {
			server.Do("ACL", "SETUSER", "default", "+"+command)
		}
		s.wantGone(time.Second)
		s.wantTTLs()
	}
	// Without its channel a waiter polls.
	k := o.take()
	for _, server := range s.servers() {
		server.Do("ACL", "SETUSER", "default", "resetchannels")
	}
	w := c.queue(s.kind)
	time.Sleep(100 * time.Millisecond)
	k.mustUnlock()
	freed := time.Now()
	next := w.served()
	s.within("the waiter got the lock", time.Since(freed), time.Second)
	for _, server := range s.servers() {
		server.Do("ACL", "SETUSER", "default", "allchannels")
	}
	next.mustUnlock()
}

// wrongType: the name is in use for data. The server's own trouble with its disk
// is final as well.
func wrongType(s *scenario) {
	c := s.client()
	for _, server := range s.keepers(s.name) {
		server.Do("SET", s.name, "data", "PX", "60000")
	}
	asked := time.Now()
	_, err := c.try(s.bounded())
	if !errors.Is(err, driver.ErrMismatch) {
		s.Errorf("got %v, want ErrMismatch", err)
	}
	for _, server := range s.keepers(s.name) {
		server.Do("DEL", s.name)
	}
	s.within("refused", time.Since(asked), 500*time.Millisecond)
	server := s.keepers(s.name)[0]
	server.FailSaves()
	asked = time.Now()
	_, err = c.try(s.bounded())
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "MISCONF") {
		s.Errorf("got %v, want ErrRefused and the server's MISCONF", err)
	}
	s.within("refused", time.Since(asked), 500*time.Millisecond)
	server.RepairSaves()
}

func wrongTypeMinority(s *scenario) {
	c := s.client()
	for _, server := range s.alone[:2] {
		server.Do("SET", s.name, "data", "PX", "60000")
	}
	k := c.take()
	k.stays(s.ttl)
	k.mustUnlock()
	for _, server := range s.alone[:2] {
		server.Do("DEL", s.name)
	}
}

// tooManyClients: the server turns new connections away for a while.
func tooManyClients(s *scenario) {
	c := s.client()
	server := s.alone[0]
	way, err := net.Dial("tcp", server.Addr()) // that stays: no other will be let in
	if err != nil {
		s.Fatal(err)
	}
	defer way.Close()
	say := func(limit string) {
		if _, err := fmt.Fprintf(way, "CONFIG SET maxclients %s\r\n", limit); err != nil {
			s.Error(err)
		}
		if _, err := way.Read(make([]byte, 100)); err != nil {
			s.Error(err)
		}
	}
	say("1")
	c.mesh.CutAll()
	_, err = c.try(s.lasting(300 * time.Millisecond))
	say("10000")
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("got %v, want the context's error", err)
	}
	s.Log(err)
	k := c.take()
	k.mustUnlock()
}

// refusedHandshake: the server answers whatever a new connection begins with by
// turning it away.
func refusedHandshake(s *scenario) {
	c := s.client()
	refused := c.on(faultproxy.Any, func() faultproxy.Action {
		return faultproxy.Reply("-ERR max number of clients reached\r\n")
	}, faultproxy.Always())
	c.mesh.CutAll()
	_, err := c.try(s.lasting(300 * time.Millisecond))
	refused.release()
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("got %v, want the context's error", err)
	}
	k := c.take()
	k.mustUnlock()
}
