package jobtest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/elect"
)

// candidateVar is the environment of a process: a candidate as JSON.
const candidateVar = "HOLDFAST_TEST_CANDIDATE"

// candidate is a process that campaigns until it is killed. A line of its input has it resign,
// if it leads, and campaign again.
type candidate struct{ Store, Addr string }

// election is the name that candidates campaign for.
const election = "leader"

// report is a line of a candidate: a term begins, or is over.
type report struct {
	Token  uint64
	At     time.Time
	Over   bool
	Why    string // the cause of its context; "" after it has resigned
	Leads  string // what Leading returned, where that is not nil
	Result string // what Run returned, in a line of its own
}

func (c *candidate) main() error {
	time.AfterFunc(10*time.Minute, func() { os.Exit(1) }) // a process that nobody kills
	b, _, err := open(c.Store, c.Addr)
	if err != nil {
		return err
	}
	l := holdfast.New(b, &holdfast.Options{TTL: cmp.Or(b.Info().SessionTTL, ttl)})
	resign := make(chan struct{})
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			resign <- struct{}{}
		}
	}()
	e, out := elect.New(l.Mutex(election)), reports{out: json.NewEncoder(os.Stdout)}
	for {
		err := e.Run(context.Background(), func(term context.Context, lock *holdfast.Lock) error {
			out.write(report{Token: lock.Token(), Leads: text(e.Leading())})
			r := report{Token: lock.Token(), Over: true}
			select {
			case <-term.Done():
				r.Why = text(context.Cause(term))
			case <-resign:
			}
			r.Leads = text(e.Leading())
			out.write(r)
			return nil
		})
		out.write(report{Result: "resigned " + text(err)})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

type reports struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (o *reports) write(r report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.At = time.Now()
	_ = o.out.Encode(r)
}
