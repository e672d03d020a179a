package redisson

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/redishold"
)

// planVar holds the plan of a process of Go that can be paused and killed: the
// test binary, which then speaks as the programs of other languages do. See Prepare.
const planVar = "HOLDFAST_INTEROP_GO"

// plan is what such a process has to do.
type plan struct {
	Target dial.Target
	TTL    time.Duration
}

// GoProcess starts a process with a Locker on the case's deployment. It ends with
// the test, and what it holds stays held. Its commands are lock, unlock, err
// (Lock.Err) and over, which waits until the lock is over and throws why; of a
// thread it has at most one lock. ErrLost is the class of holdfast.ErrLost.
func (b *Bench) GoProcess(adapter string, ttl time.Duration) *peer.Process {
	b.t.Helper()
	text, err := json.Marshal(plan{dial.To(adapter, b.Deployment), ttl})
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), planVar+"="+string(text))
	return peer.Start(b.t, cmd)
}

// servant has the locks of a process of Go.
type servant struct {
	locker *holdfast.Locker

	mu    sync.Mutex // guards what follows
	locks map[string]*holdfast.Lock
	out   *json.Encoder
}

// serve does what the commands say until there are no more. A command that waits
// ends with the process.
func serve(text string, in io.Reader, out io.Writer) error {
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	conn, _, err := dial.Open(context.Background(), p.Target)
	if err != nil {
		return err
	}
	s := &servant{
		locker: holdfast.New(redishold.New(conn, nil), &holdfast.Options{TTL: p.TTL}),
		locks:  map[string]*holdfast.Lock{}, out: json.NewEncoder(out),
	}
	s.answer(0, nil)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var c peer.Command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		go func() { s.answer(c.ID, s.do(c)) }()
	}
	return lines.Err()
}

func (s *servant) do(c peer.Command) error {
	switch c.Op {
	case "lock":
		m, err := s.mutex(c.Kind, c.Name)
		if err != nil {
			return err
		}
		lock, err := m.Lock(context.Background())
		s.mu.Lock()
		defer s.mu.Unlock()
		s.locks[c.Thread] = lock
		return err
	case "over":
		ctx := s.lock(c.Thread).Context(context.Background())
		<-ctx.Done()
		return context.Cause(ctx)
	case "err":
		return s.lock(c.Thread).Err()
	case "unlock":
		return s.lock(c.Thread).Unlock()
	default:
		return fmt.Errorf("op %q", c.Op)
	}
}

func (s *servant) lock(thread string) *holdfast.Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locks[thread]
}

// mutex returns the lock of a kind, as the programs of other languages name them.
func (s *servant) mutex(kind, name string) (*holdfast.Mutex, error) {
	switch kind {
	case "", "lock":
		return s.locker.Mutex(name), nil
	case "fair":
		return s.locker.FairMutex(name), nil
	case "read":
		return s.locker.RWMutex(name).Read, nil
	case "write":
		return s.locker.RWMutex(name).Write, nil
	default:
		return nil, fmt.Errorf("kind %q", kind)
	}
}

func (s *servant) answer(id int64, err error) {
	r := peer.Reply{ID: id}
	switch {
	case errors.Is(err, holdfast.ErrLost):
		r.Class, r.Error = "ErrLost", err.Error()
	case err != nil:
		r.Class, r.Error = "error", err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(r) // who does not read it is gone
}
