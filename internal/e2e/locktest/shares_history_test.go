package locktest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	anywhere "github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/redishold"
)

// Four processes that use one lock, without any fault: if they want it all the time, none
// starves. However they use it, somebody gets it soon when it is free and somebody waits.
const (
	shareProcesses = 4
	shareLeast     = 0.7 // of a fair share, for each process

	// freeMost is how long the lock may be free although somebody waits for it. No message is
	// lost and no process dies, so this is much shorter than the second after which a waiter
	// asks again.
	freeMost = 300 * time.Millisecond
)

// Ways in which the processes use the lock.
const (
	equal   = "equal"   // all of them want it all the time
	skewed  = "skewed"  // likewise; the first process has one goroutine and holds ten times as long as the others
	pausing = "pausing" // a goroutine waits for up to thinkMost after each hold
	leaving = "leaving" // all goroutines of the first process give up at once, and stay away for a while; the others have one goroutine
)

const (
	thinkMost = 6 * time.Millisecond
	stayMost  = 50 * time.Millisecond           // until the goroutines give up
	away      = freeMost + 100*time.Millisecond // until they call again: nothing else wakes the others meanwhile
)

// shareCell is one deployment, client and way to use a lock.
type shareCell struct {
	topology redistest.Topology
	classic  bool // servers that know no sharded channels, as Redis 6.2
	adapter  string
	protocol redishold.Layout
	hold     time.Duration
	use      string
}

func (c shareCell) String() string {
	topology, use := string(c.topology), c.use
	if c.classic {
		topology += " without sharded channels"
	}
	if c.protocol != redishold.Redisson {
		use += " " + c.protocol.String()
	}
	return fmt.Sprintf("%s/%s/%v %s", topology, c.adapter, c.hold, use)
}

// greedy says that the processes want the lock all the time: then they take turns.
func (c shareCell) greedy() bool { return c.use == equal || c.use == skewed }

// long is for how long a cell is played. Turns are judged by their number, which needs time.
func (c shareCell) long(thorough bool) time.Duration {
	switch {
	case thorough:
		return 10 * time.Second
	case c.greedy():
		return 4 * time.Second
	default:
		return 3 * time.Second
	}
}

// longest is how long a goroutine may wait: each goroutine of a process may have to
// wait for a turn of its own, and a turn is a hold and the time for which a lock is
// passed on.
func (c shareCell) longest() time.Duration {
	return 3*shareProcesses*(c.hold+50*time.Millisecond) + 500*time.Millisecond
}

// briefHold is about as long as a round trip.
const briefHold = 500 * time.Microsecond

// shareCells are all cells, or a few of them.
func shareCells(all bool) (cells []shareCell) {
	for _, topology := range []redistest.Topology{redistest.Standalone, redistest.Replicated, redistest.Sentinel, redistest.Cluster} {
		for _, classic := range []bool{false, true} {
			for _, adapter := range anywhere.Adapters() {
				if classic && topology != redistest.Cluster {
					continue
				}
				for _, hold := range []time.Duration{0, 5 * time.Millisecond, 100 * time.Millisecond} {
					for _, use := range []string{equal, skewed} {
						cells = append(cells, shareCell{topology, classic, adapter, redishold.Redisson, hold, use})
					}
				}
				for _, use := range []string{pausing, leaving} {
					cells = append(cells, shareCell{topology, classic, adapter, redishold.Redisson, briefHold, use})
				}
			}
		}
	}
	if all {
		for _, protocol := range []redishold.Layout{redishold.Plain, redishold.Timestamp} {
			for _, topology := range []redistest.Topology{redistest.Standalone, redistest.Cluster} {
				cells = append(cells,
					shareCell{topology, false, anywhere.Adapters()[0], protocol, 5 * time.Millisecond, skewed},
					shareCell{topology, false, anywhere.Adapters()[1], protocol, 100 * time.Millisecond, equal})
				for _, adapter := range anywhere.Adapters() {
					for _, use := range []string{pausing, leaving} {
						cells = append(cells, shareCell{topology, false, adapter, protocol, briefHold, use})
					}
				}
			}
		}
		slices.SortStableFunc(cells, func(a, b shareCell) int { return cmp.Compare(a.topology, b.topology) })
		return cells
	}
	few := fewCells()
	return slices.DeleteFunc(cells, func(c shareCell) bool { return !few[c.String()] })
}

// fewCells names the cells that CI plays.
func fewCells() map[string]bool {
	few := map[string]bool{
		"cluster/rueidis/100ms equal":                          true,
		"cluster/goredis/5ms skewed":                           true,
		"cluster without sharded channels/goredis/100ms equal": true,
		"standalone/rueidis/100ms skewed":                      true,
		"cluster/goredis/500µs leaving":                        true,
	}
	for _, topology := range []redistest.Topology{redistest.Standalone, redistest.Sentinel, redistest.Cluster} {
		for _, adapter := range anywhere.Adapters() {
			for _, use := range []string{"0s equal", "500µs pausing"} {
				few[fmt.Sprintf("%s/%s/%s", topology, adapter, use)] = true
			}
		}
	}
	return few
}

// HOLDFAST_SHARES=all plays every cell, for ten seconds each; any other text those
// whose name contains it.
func TestSharesHistory(t *testing.T) {
	await.NotShort(t, "takes long")
	want := os.Getenv("HOLDFAST_SHARES")
	cells := shareCells(want != "")
	if want != "" && want != "all" {
		cells = slices.DeleteFunc(cells, func(c shareCell) bool { return !strings.Contains(c.String(), want) })
	}
	if want == "" && len(cells) != len(fewCells()) {
		t.Fatalf("%d cells have one of the %d names", len(cells), len(fewCells()))
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
				t.Run(c.String(), func(t *testing.T) { playShares(t, c, d, c.long(want != "")) })
			}
		})
		cells = cells[n:]
	}
}

// standstill is for how long the machine may leave a process without a processor.
// A cell that fails while it was longer is played again: its bounds are the
// library's, and not the machine's. So is a cell without hold time in which only the share of
// the holds is too small: how many a process has in its turn depends on its share of the processors.
const (
	standstill  = 40 * time.Millisecond
	shareRounds = 3
)

func playShares(t *testing.T, c shareCell, d *redistest.Deployment, long time.Duration) {
	for round := range shareRounds {
		r := c.play(t, d, fmt.Sprintf("shared:%v:%d", c, round), long)
		t.Log(r)
		if free := r.longestFree(); free > freeMost {
			t.Errorf("the lock was free for %v although somebody waited, want at most %v", free, freeMost)
			return
		}
		failures := r.failures(c)
		if len(failures) == 0 {
			return
		}
		turns, _ := r.least()
		machine := longestOf(r.stalls) >= standstill || c.hold == 0 && len(failures) == 1 && turns >= shareLeast && r.longestWait() <= c.longest()
		if stalled := longestOf(r.stalls); !machine || round == shareRounds-1 {
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
	Use        string
	From, To   int64 // when, in Unix nanoseconds
}

// shareTurn is a time in which a user had the lock, from a grant of the store on.
type shareTurn struct {
	judge.Span
	Holds int
	user  int
}

// shareReport is what a user of the lock saw: a process, or one Locker of a process.
type shareReport struct {
	Turns   []shareTurn
	Waits   []judge.Span // the longest
	Held    []judge.Span // when a goroutine had the lock, or released it
	Waiting []judge.Span // when a goroutine waited for it
	Stalls  []judge.Span // when the process did not run
}

// shares is what all of them saw.
type shares struct {
	users         int
	turns         []shareTurn // in order
	waits         []judge.Span
	held, waiting []judge.Span
	stalls        []judge.Span
	took          time.Duration
}

// play lets four processes use one lock.
func (c shareCell) play(t *testing.T, d *redistest.Deployment, name string, long time.Duration) shares {
	t.Helper()
	const ready = time.Second // until then all processes have a connection
	from := time.Now().Add(ready)
	reports := make([]shareReport, shareProcesses)
	var wg sync.WaitGroup
	for i := range shareProcesses {
		wg.Go(func() {
			p := sharePlan{
				Target: anywhere.To(c.adapter, d), Classic: c.classic, Protocol: c.protocol, Name: name, Hold: c.hold, Use: c.use,
				From: from.UnixNano(), To: from.Add(long).UnixNano(),
			}
			switch {
			case c.use == equal:
				p.Goroutines = 3
			case c.use == skewed:
				p.Goroutines = i + 1
				if i > 0 {
					p.Hold /= 10
				}
			case c.use == pausing, i == 0:
				p.Goroutines = 4
			default:
				p.Goroutines, p.Use = 1, equal
			}
			var err error
			if reports[i], err = p.run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return sharesOf(reports, long)
}

// sharesOf puts together what users of one lock saw.
func sharesOf(reports []shareReport, took time.Duration) shares {
	all := shares{users: len(reports), took: took}
	for i, r := range reports {
		for _, turn := range r.Turns {
			turn.user = i
			all.turns = append(all.turns, turn)
		}
		all.waits, all.stalls = append(all.waits, r.Waits...), append(all.stalls, r.Stalls...)
		all.held, all.waiting = append(all.held, r.Held...), append(all.waiting, r.Waiting...)
	}
	slices.SortFunc(all.turns, func(a, b shareTurn) int { return cmp.Compare(a.From, b.From) })
	all.stalls = judge.Union(all.stalls)
	return all
}

// run runs a process that does p.
func (p sharePlan) run(ctx context.Context) (r shareReport, err error) {
	cmd, err := worker.Command(ctx, shareJob, p)
	if err != nil {
		return r, err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return r, json.Unmarshal(out, &r)
}

// failures are what is wrong with s.
func (s shares) failures(c shareCell) (failures []string) {
	turns, holds := s.least()
	if !c.greedy() {
		if turns == 0 {
			failures = append(failures, "a process had no turn")
		}
		return failures
	}
	if got := s.longestWait(); got > c.longest() {
		failures = append(failures, fmt.Sprintf("the longest wait: got %v, want at most %v", got, c.longest()))
	}
	if turns < shareLeast {
		failures = append(failures, fmt.Sprintf("a process had %.2f of its share of the turns, want at least %.2f", turns, shareLeast))
	}
	if c.use == equal && holds < shareLeast {
		failures = append(failures, fmt.Sprintf("a process had %.2f of its share of the holds, want at least %.2f", holds, shareLeast))
	}
	return failures
}

// least returns the smallest part that a user had of its share of the turns, and
// of the holds.
func (s shares) least() (turns, holds float64) {
	byTurns, byHolds, all := make([]int, s.users), make([]int, s.users), 0
	for _, t := range s.turns {
		byTurns[t.user]++
		byHolds[t.user] += t.Holds
		all += t.Holds
	}
	share := func(had []int, all int) float64 {
		return float64(slices.Min(had)*s.users) / float64(max(all, 1))
	}
	return share(byTurns, len(s.turns)), share(byHolds, all)
}

// longestWait is net of the time in which a process did not run: while
// a holder does not, all wait.
func (s shares) longestWait() (longest time.Duration) {
	for _, w := range s.waits {
		longest = max(longest, w.Without(s.stalls))
	}
	return longest
}

// longestFree is the longest time in which the lock was free although somebody waited, net of
// the time in which a process did not run.
func (s shares) longestFree() (longest time.Duration) {
	for _, f := range judge.Free(s.held, s.waiting) {
		longest = max(longest, f.Without(s.stalls))
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
		stalled += st.Duration()
	}
	return fmt.Sprintf("free for %v at most, longest wait %v, least share of turns %.2f, of holds %.2f, %d turns and %.0f holds a second, machine stood still for %v of %v",
		s.longestFree().Round(time.Millisecond), s.longestWait().Round(time.Millisecond), turns, holds, len(s.turns), float64(all)/s.took.Seconds(), stalled.Round(time.Millisecond), s.took)
}

func longestOf(spans []judge.Span) (longest time.Duration) {
	for _, s := range spans {
		longest = max(longest, s.Duration())
	}
	return longest
}

// clusterConn is what both adapters are.
type clusterConn interface {
	redishold.Conn
	redishold.Single
	redishold.Beginner
	redishold.ListenerCounter
}

// classicConn is a Conn to servers that seem to know no sharded channels.
type classicConn struct{ clusterConn }

func (c classicConn) Server(ctx context.Context) (redishold.ServerInfo, error) {
	info, err := c.clusterConn.Server(ctx)
	info.ShardedPS = false
	return info, err
}

// sharer is a user of a lock, which follows a sharePlan.
type sharer struct {
	sharePlan
	l *holdfast.Locker

	mu     sync.Mutex
	report shareReport
	last   uint64 // token
}

const waitsKept = 50

func workForShares(process *worker.Worker) error {
	s := &sharer{}
	if err := process.Plan(&s.sharePlan); err != nil {
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
	watched := worker.Watch(ctx, s.stalled)
	work := s.visit
	if s.Use == leaving {
		work = s.comeAndGo
	}
	worked := work(ctx)
	watched()
	drain, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := errors.Join(worked, s.l.Drain(drain)); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s.report)
}

// visit uses the lock with all goroutines until ctx ends.
func (s *sharer) visit(ctx context.Context) error {
	errs := make([]error, s.Goroutines)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = s.use(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// comeAndGo has all goroutines use the lock, give up at once, and stay away, until ctx ends.
func (s *sharer) comeAndGo(ctx context.Context) error {
	for ctx.Err() == nil {
		visit, cancel := context.WithTimeout(ctx, rand.N(stayMost))
		err := s.visit(visit)
		cancel()
		if err != nil {
			return err
		}
		retry.Sleep(ctx, away)
	}
	return nil
}

// use takes the lock until ctx ends.
func (s *sharer) use(ctx context.Context) error {
	for ctx.Err() == nil {
		called := time.Now()
		k, err := s.l.Lock(ctx, s.Name)
		granted := time.Now()
		if err != nil && ctx.Err() == nil {
			return err
		}
		s.waited(judge.Span{From: called.UnixNano(), To: granted.UnixNano()})
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
		s.freed(granted)
		if s.Use == pausing {
			retry.Sleep(ctx, rand.N(thinkMost))
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
		s.report.Turns = append(s.report.Turns, shareTurn{Span: judge.Span{From: granted.UnixNano()}})
	}
	turn := &s.report.Turns[len(s.report.Turns)-1]
	turn.To = time.Now().UnixNano()
	turn.Holds++
	s.last = token
}

// freed writes down from when to when a lock was certainly not free.
func (s *sharer) freed(granted time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Held = judge.Add(s.report.Held, judge.Span{From: granted.UnixNano(), To: time.Now().UnixNano()}, sharesGrain)
}

// sharesGrain is how short a pause between two holds of a process may be not to be reported.
const sharesGrain = time.Millisecond

// waited keeps the longest waits, and when somebody waited.
func (s *sharer) waited(w judge.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Waiting = judge.Add(s.report.Waiting, w, sharesGrain)
	if n := len(s.report.Waits); n < waitsKept {
		s.report.Waits = append(s.report.Waits, w)
	} else if w.Duration() > s.report.Waits[n-1].Duration() {
		s.report.Waits[n-1] = w
	} else {
		return
	}
	slices.SortFunc(s.report.Waits, func(a, b judge.Span) int { return cmp.Compare(b.Duration(), a.Duration()) })
}

// stalled writes down when the process did not run.
func (s *sharer) stalled(during judge.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Stalls = append(s.report.Stalls, during)
}
