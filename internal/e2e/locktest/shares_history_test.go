package locktest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	anywhere "github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// Four processes that want one lock all the time, without any fault: none starves.
const (
	shareProcesses = 4
	shareLeast     = 0.7 // of a fair share, for each process
)

// shareCell is one deployment, client and way to use a lock.
type shareCell struct {
	topology redistest.Topology
	classic  bool // servers that know no sharded channels, as Redis 6.2
	adapter  string
	protocol redishold.Layout
	hold     time.Duration
	skewed   bool // the first process has one goroutine and holds ten times as long as the others
}

func (c shareCell) String() string {
	topology, use := string(c.topology), "equal"
	if c.classic {
		topology += " without sharded channels"
	}
	if c.skewed {
		use = "skewed"
	}
	if c.protocol != redishold.Redisson {
		use += " " + c.protocol.String()
	}
	return fmt.Sprintf("%s/%s/%v %s", topology, c.adapter, c.hold, use)
}

// longest is how long a goroutine may wait: each goroutine of a process may have to
// wait for a turn of its own, and a turn is a hold and the time for which a lock is
// passed on.
func (c shareCell) longest() time.Duration {
	return 3*shareProcesses*(c.hold+50*time.Millisecond) + 500*time.Millisecond
}

// shareCells are all cells, or a few of them.
func shareCells(all bool) (cells []shareCell) {
	for _, topology := range []redistest.Topology{redistest.Standalone, redistest.Replicated, redistest.Sentinel, redistest.Cluster} {
		for _, classic := range []bool{false, true} {
			for _, adapter := range anywhere.Adapters() {
				for _, hold := range []time.Duration{0, 5 * time.Millisecond, 100 * time.Millisecond} {
					for _, skewed := range []bool{false, true} {
						if !classic || topology == redistest.Cluster {
							cells = append(cells, shareCell{topology, classic, adapter, redishold.Redisson, hold, skewed})
						}
					}
				}
			}
		}
	}
	if all {
		for _, protocol := range []redishold.Layout{redishold.Plain, redishold.Timestamp} {
			for _, topology := range []redistest.Topology{redistest.Standalone, redistest.Cluster} {
				cells = append(cells,
					shareCell{topology, false, anywhere.Adapters()[0], protocol, 5 * time.Millisecond, true},
					shareCell{topology, false, anywhere.Adapters()[1], protocol, 100 * time.Millisecond, false})
			}
		}
		slices.SortStableFunc(cells, func(a, b shareCell) int { return cmp.Compare(a.topology, b.topology) })
		return cells
	}
	few := map[string]bool{
		"cluster/rueidis/100ms equal":                          true,
		"cluster/goredis/5ms skewed":                           true,
		"standalone/goredis/0s equal":                          true,
		"cluster without sharded channels/goredis/100ms equal": true,
		"standalone/rueidis/100ms skewed":                      true,
	}
	return slices.DeleteFunc(cells, func(c shareCell) bool { return !few[c.String()] })
}

// HOLDFAST_SHARES=all plays every cell, for ten seconds each; any other text those
// whose name contains it.
func TestSharesHistory(t *testing.T) {
	await.NotShort(t, "takes long")
	want, long := os.Getenv("HOLDFAST_SHARES"), 10*time.Second
	cells := shareCells(want != "")
	switch want {
	case "":
		long = 4 * time.Second
	case "all":
	default:
		cells = slices.DeleteFunc(cells, func(c shareCell) bool { return !strings.Contains(c.String(), want) })
	}
	for len(cells) > 0 {
		topology := cells[0].topology
		n := slices.IndexFunc(cells, func(c shareCell) bool { return c.topology != topology })
		if n < 0 {
			n = len(cells)
		}
		t.Run(string(topology), func(t *testing.T) {
			d := redistest.StartDeployment(t, topology)
			for _, c := range cells[:n] {
				t.Run(c.String(), func(t *testing.T) { playShares(t, c, d, long) })
			}
		})
		cells = cells[n:]
	}
}

// standstill is for how long the machine may leave a process without a processor.
// A cell that fails while it was longer is played again: its bounds are the
// library's, and not the machine's.
const (
	standstill  = 40 * time.Millisecond
	shareRounds = 3
)

func playShares(t *testing.T, c shareCell, d *redistest.Deployment, long time.Duration) {
	for round := range shareRounds {
		r := c.play(t, d, fmt.Sprintf("shared:%v:%d", c, round), long)
		t.Log(r)
		failures := r.failures(c)
		if len(failures) == 0 {
			return
		}
		if stalled := longestOf(r.stalls); stalled < standstill || round == shareRounds-1 {
			t.Errorf("%s (the machine stood still for %v at most)", strings.Join(failures, "; "), stalled)
			return
		}
		t.Logf("played again: %s", strings.Join(failures, "; "))
	}
}

// sharePlan is what a process has to do.
type sharePlan struct {
	Target     anywhere.Target
	Classic    bool
	Protocol   redishold.Layout
	Name       string
	Goroutines int
	Hold       time.Duration
	From, To   int64 // when, in Unix nanoseconds
}

// span is a time, in Unix nanoseconds.
type span struct{ From, To int64 }

// shareTurn is a time in which a process had the lock, from a grant of the store on.
type shareTurn struct {
	span
	Holds   int
	process int
}

// shareReport is what a process saw.
type shareReport struct {
	Turns  []shareTurn
	Waits  []span // the longest
	Stalls []span // when the process did not run
}

// shares is what all of them saw.
type shares struct {
	turns  []shareTurn // in order
	waits  []span
	stalls []span
	took   time.Duration
}

// play lets four processes use one lock.
func (c shareCell) play(t *testing.T, d *redistest.Deployment, name string, long time.Duration) (all shares) {
	t.Helper()
	const ready = time.Second // until then all processes have a connection
	from := time.Now().Add(ready)
	all.took = long
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range shareProcesses {
		wg.Go(func() {
			p := sharePlan{
				Target: anywhere.To(c.adapter, d), Classic: c.classic, Protocol: c.protocol, Name: name, Goroutines: 3, Hold: c.hold,
				From: from.UnixNano(), To: from.Add(long).UnixNano(),
			}
			if c.skewed {
				p.Goroutines = i + 1
				if i > 0 {
					p.Hold /= 10
				}
			}
			r, err := p.run(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, turn := range r.Turns {
				turn.process = i
				all.turns = append(all.turns, turn)
			}
			all.waits, all.stalls = append(all.waits, r.Waits...), append(all.stalls, r.Stalls...)
		})
	}
	wg.Wait()
	slices.SortFunc(all.turns, func(a, b shareTurn) int { return cmp.Compare(a.From, b.From) })
	all.stalls = union(all.stalls)
	return all
}

// run runs a process that does p.
func (p sharePlan) run(ctx context.Context) (r shareReport, err error) {
	text, err := json.Marshal(p)
	if err != nil {
		return r, err
	}
	out, err := runWorker(ctx, "shares", "PLAN="+string(text))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// failures are what is wrong with s.
func (s shares) failures(c shareCell) (failures []string) {
	if got := s.longestWait(); got > c.longest() {
		failures = append(failures, fmt.Sprintf("the longest wait: got %v, want at most %v", got, c.longest()))
	}
	turns, holds := s.least()
	if turns < shareLeast {
		failures = append(failures, fmt.Sprintf("a process had %.2f of its share of the turns, want at least %.2f", turns, shareLeast))
	}
	if !c.skewed && holds < shareLeast {
		failures = append(failures, fmt.Sprintf("a process had %.2f of its share of the holds, want at least %.2f", holds, shareLeast))
	}
	return failures
}

// least returns the smallest part that a process had of its share of the turns, and
// of the holds.
func (s shares) least() (turns, holds float64) {
	byTurns, byHolds, all := [shareProcesses]int{}, [shareProcesses]int{}, 0
	for _, t := range s.turns {
		byTurns[t.process]++
		byHolds[t.process] += t.Holds
		all += t.Holds
	}
	share := func(had []int, all int) float64 {
		return float64(slices.Min(had)) * shareProcesses / float64(max(all, 1))
	}
	return share(byTurns[:], len(s.turns)), share(byHolds[:], all)
}

// longestWait is net of the time in which a process of the cell did not run: while
// a holder does not, all wait.
func (s shares) longestWait() (longest time.Duration) {
	for _, w := range s.waits {
		longest = max(longest, w.without(s.stalls))
	}
	return longest
}

func (s shares) String() string {
	turns, holds := s.least()
	all := 0
	for _, t := range s.turns {
		all += t.Holds
	}
	stalled := time.Duration(0)
	for _, st := range s.stalls {
		stalled += st.length()
	}
	return fmt.Sprintf("longest wait %v, least share of turns %.2f, of holds %.2f, %d turns and %.0f holds a second, machine stood still for %v of %v",
		s.longestWait().Round(time.Millisecond), turns, holds, len(s.turns), float64(all)/s.took.Seconds(), stalled.Round(time.Millisecond), s.took)
}

func (s span) length() time.Duration { return time.Duration(s.To - s.From) }

// without is the length of s without what others, which are in order and do not
// touch, have of it.
func (s span) without(others []span) time.Duration {
	left := s.length()
	for _, o := range others {
		if from, to := max(s.From, o.From), min(s.To, o.To); from < to {
			left -= time.Duration(to - from)
		}
	}
	return left
}

func longestOf(spans []span) (longest time.Duration) {
	for _, s := range spans {
		longest = max(longest, s.length())
	}
	return longest
}

// union returns the same times in order, none of which touches another.
func union(spans []span) (all []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range spans {
		if n := len(all); n > 0 && s.From <= all[n-1].To {
			all[n-1].To = max(all[n-1].To, s.To)
			continue
		}
		all = append(all, s)
	}
	return all
}

// clusterConn is what both adapters are.
type clusterConn interface {
	redishold.Conn
	redishold.Single
	redishold.Beginner
}

// classicConn is a Conn to servers that seem to know no sharded channels.
type classicConn struct{ clusterConn }

func (c classicConn) Server(ctx context.Context) (redishold.ServerInfo, error) {
	info, err := c.clusterConn.Server(ctx)
	info.ShardedPS = false
	return info, err
}

// sharer is the process of a sharePlan.
type sharer struct {
	sharePlan
	l *holdfast.Locker

	mu     sync.Mutex
	report shareReport
	last   uint64 // token
}

const waitsKept = 50

func workForShares() error {
	s := &sharer{}
	if err := json.Unmarshal([]byte(os.Getenv("PLAN")), &s.sharePlan); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, s.To))
	defer cancel()
	conn, shut, err := anywhere.Open(ctx, s.Target)
	if err != nil {
		return err
	}
	defer shut()
	if s.Classic {
		conn = classicConn{conn.(clusterConn)}
	}
	s.l = holdfast.New(redishold.New(conn, &redishold.Options{Layout: s.Protocol}), nil)
	if k, err := s.l.Lock(ctx, fmt.Sprint("warm:", os.Getpid())); err != nil || k.Unlock() != nil {
		return fmt.Errorf("first lock: %w", err)
	}
	time.Sleep(time.Until(time.Unix(0, s.From)))
	errs := make([]error, s.Goroutines)
	var wg sync.WaitGroup
	for range 3 { // one alone may be late itself
		wg.Go(func() { s.watchTheClock(ctx) })
	}
	for i := range errs {
		wg.Go(func() { errs[i] = s.use(ctx) })
	}
	wg.Wait()
	drain, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := errors.Join(append(errs, s.l.Drain(drain))...); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s.report)
}

// use takes the lock until the end.
func (s *sharer) use(ctx context.Context) error {
	for ctx.Err() == nil {
		called := time.Now()
		k, err := s.l.Lock(ctx, s.Name)
		granted := time.Now()
		if err != nil && ctx.Err() == nil {
			return err
		}
		s.waited(span{called.UnixNano(), granted.UnixNano()})
		if err != nil {
			return nil
		}
		if s.Hold > 0 {
			time.Sleep(s.Hold)
		}
		s.had(granted, k.Token())
		if err := k.Unlock(); err != nil {
			return err
		}
	}
	return nil
}

// had writes a hold down. The token after that of the last hold says that it was
// passed on.
func (s *sharer) had(granted time.Time, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token != s.last+1 || len(s.report.Turns) == 0 {
		s.report.Turns = append(s.report.Turns, shareTurn{span: span{From: granted.UnixNano()}})
	}
	turn := &s.report.Turns[len(s.report.Turns)-1]
	turn.To = time.Now().UnixNano()
	turn.Holds++
	s.last = token
}

// waited keeps the longest waits.
func (s *sharer) waited(w span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.report.Waits); n < waitsKept {
		s.report.Waits = append(s.report.Waits, w)
	} else if w.length() > s.report.Waits[n-1].length() {
		s.report.Waits[n-1] = w
	} else {
		return
	}
	slices.SortFunc(s.report.Waits, func(a, b span) int { return cmp.Compare(b.length(), a.length()) })
}

// watchTheClock writes down when the process did not run.
func (s *sharer) watchTheClock(ctx context.Context) {
	const tick = 2 * time.Millisecond
	for last := time.Now(); ctx.Err() == nil; {
		time.Sleep(tick)
		now := time.Now()
		if late := now.Sub(last) - tick; late > time.Millisecond {
			s.mu.Lock()
			s.report.Stalls = append(s.report.Stalls, span{now.Add(-late).UnixNano(), now.UnixNano()})
			s.mu.Unlock()
		}
		last = now
	}
}
