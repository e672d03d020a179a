package work

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// Words that a process and its parent exchange.
const (
	Ready = "ready" // from the process: it is warm
	Go    = "go"    // from the parent: measure now
	Done  = "done"  // from the process: it has measured, and still works or waits
	End   = "end"   // from the parent: stop, and tell the Result
)

// Serve is the main function of a measuring process: it reads a Plan, warms up,
// measures when the parent says so, and writes a Result.
func Serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var plan Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		return err
	}
	result, err := do(plan, parent{lines, out})
	if err != nil {
		result.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(result)
}

// parent is who gave the Plan. It looks at the server between Done and End, when
// nothing has been stopped: what giving up costs is not what is measured.
type parent struct {
	in  *bufio.Reader
	out io.Writer
}

// start returns when measuring shall begin.
func (p parent) start() error { return p.exchange(Ready) }

// finish returns when the work shall come to an end.
func (p parent) finish() error { return p.exchange(Done) }

// exchange says a word and waits for an answer.
func (p parent) exchange(word string) error {
	if _, err := fmt.Fprintln(p.out, word); err != nil {
		return err
	}
	_, err := p.in.ReadString('\n')
	return err
}

// do does the work of a plan.
func do(plan Plan, parent parent) (Result, error) {
	spec, err := peer.Find(plan.Peer)
	if err != nil {
		return Result{}, err
	}
	shared, err := openPage(plan.Page)
	if err != nil {
		return Result{}, err
	}
	defer shared.close()
	before := settled()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	p, err := spec.Open(ctx, plan.Target)
	cancel()
	if err != nil {
		return Result{}, fmt.Errorf("open %s: %w", plan.Peer, err)
	}
	if plan.Work.Kind == Keep {
		return keep(p, plan, before, parent)
	}
	defer p.Close()
	if prep, ok := p.(peer.Preparing); ok {
		if err := prep.Prepare(plan.Work.Goroutines); err != nil {
			return Result{}, fmt.Errorf("prepare %s: %w", plan.Peer, err)
		}
	}
	return pairs(p, plan, shared, parent)
}
