package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// curator is InterProcessMutex of Curator, in a Java process of its own that takes a
// command on each line of its input: internal/e2e/interop/curator. A Lock and an Unlock
// wait for a pipe too, some 0.1 ms together.
func curator() Spec {
	return Spec{
		Name: "Curator", Client: "zk", Role: Other, Can: []Ability{Waits, Renews, Queues},
		Open: func(ctx context.Context, t Target) (Peer, error) {
			if t.Curator == "" {
				return nil, errors.New("there is no Curator; .ci/interop-zookeeper builds its program")
			}
			return startCurator(ctx, t)
		},
	}
}

type curatorPeer struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{} // closed when the program has ended

	mu      sync.Mutex
	last    int64                       // the number of the newest command
	answers map[int64]chan curatorReply // by number of the command
	threads []string                    // of the program, where nothing is held
	started int                         // threads
}

type curatorCommand struct {
	ID     int64  `json:"id"`
	Op     string `json:"op"`
	Name   string `json:"name"`
	Thread string `json:"thread"`
	Wait   int64  `json:"wait"` // ms
}

type curatorReply struct {
	ID    int64           `json:"id"`
	Value any             `json:"value"`
	Error json.RawMessage `json:"error"`
}

func startCurator(ctx context.Context, t Target) (Peer, error) {
	ttl := strconv.FormatInt(time.Duration(t.TTL).Milliseconds(), 10)
	p := &curatorPeer{ended: make(chan struct{}), answers: map[int64]chan curatorReply{}}
	p.cmd = exec.Command("java", "-Xmx256m", "-cp", t.Curator+":"+filepath.Join(filepath.Dir(t.Curator), "lib", "*"),
		"holdfast.peer.Main", t.ZooKeeper, ttl)
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	ready := make(chan curatorReply, 1)
	p.answers[0] = ready
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(out)
	select {
	case <-ready:
		return p, nil
	case <-p.ended:
		return nil, errors.New("the Curator program ended before it was ready")
	case <-ctx.Done():
		p.Close()
		return nil, errors.New("ZooKeeper does not answer Curator")
	}
}

func (p *curatorPeer) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r curatorReply
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		p.mu.Lock()
		answer := p.answers[r.ID]
		delete(p.answers, r.ID)
		p.mu.Unlock()
		if answer != nil {
			answer <- r
		}
	}
	_ = p.cmd.Wait()
	close(p.ended)
}

// do sends a command and waits for its answer, for as long as the program runs.
func (p *curatorPeer) do(c curatorCommand) (curatorReply, error) {
	answer := make(chan curatorReply, 1)
	p.mu.Lock()
	p.last++
	c.ID = p.last
	p.answers[c.ID] = answer
	line, err := json.Marshal(c)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	p.mu.Unlock()
	if err != nil {
		return curatorReply{}, err
	}
	select {
	case r := <-answer:
		if len(r.Error) > 0 {
			return r, fmt.Errorf("curator: %s", r.Error)
		}
		return r, nil
	case <-p.ended:
		return curatorReply{}, errors.New("the Curator program ended")
	}
}

// Lock waits in a thread of the program that it keeps until Unlock, as Curator demands.
func (p *curatorPeer) Lock(ctx context.Context, key string) (Held, error) {
	const wait = 5 * time.Second // then ctx is checked again: the program knows no context
	h := &curatorHeld{peer: p, name: Root + "/" + key, thread: p.thread()}
	for {
		if err := ctx.Err(); err != nil {
			p.free(h.thread)
			return nil, err
		}
		r, err := p.do(curatorCommand{Op: "lock", Name: h.name, Thread: h.thread, Wait: wait.Milliseconds()})
		if err != nil {
			return nil, err
		}
		if r.Value == true {
			return h, nil
		}
	}
}

// LockFair is Lock: waiters are served in the order of their nodes.
func (p *curatorPeer) LockFair(ctx context.Context, key string) (Held, error) {
	return p.Lock(ctx, key)
}

func (p *curatorPeer) thread() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.threads); n > 0 {
		free := p.threads[n-1]
		p.threads = p.threads[:n-1]
		return free
	}
	p.started++
	return strconv.Itoa(p.started)
}

func (p *curatorPeer) free(thread string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.threads = append(p.threads, thread)
}

// Close ends the program, and its session with it after the timeout of the session.
func (p *curatorPeer) Close() {
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

type curatorHeld struct {
	peer         *curatorPeer
	name, thread string
}

// Unlock deletes the node of the claim.
func (h *curatorHeld) Unlock() error {
	_, err := h.peer.do(curatorCommand{Op: "unlock", Name: h.name, Thread: h.thread})
	h.peer.free(h.thread)
	return err
}
