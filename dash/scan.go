package dash

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	scanEvery = time.Second
	scanRetry = 2 * time.Second

	mostFound = 10 * mostNames // the most names that a plan remembers

	// A scan reads scanReads names at most. Some of them are reserved: scanFound for names that
	// users search for, and as many for names that no earlier scan has found.
	scanReads = 300
	scanFound = 50
	scanKnown = scanReads - 2*scanFound

	// These numbers of commands are estimates of what a scan costs a Redis, where a scan costs
	// most. They are rather too high, so that the pages promise nothing that is too early.
	commandsPerRead = 4
	commandsPerKey  = 4.0 * 2 / 200 // at most four SCANs, with two commands for 200 keys

	// scanBurst is how many commands a list may send beyond its Pace: 200 at its beginning, and
	// those of the last call, which reads up to 40 names. The pause after a scan makes up for them.
	scanBurst = 320

	missingPolls = 16 // how many of the names that an incomplete scan has missed are polled after the scan
)

// scan lists all names, again and again, with a bounded number of commands per second. It
// reads the names that the plan chooses. It also polls some of the names that an incomplete scan
// has missed.
func (d *Dashboard) scan(ctx context.Context) {
	for pause := time.Duration(0); retry.Sleep(ctx, pause); {
		d.table.begin()
		began, found, finds := time.Now(), 0, d.views.finds()
		filter := admin.Filter{
			NamePrefix: d.options.NamePrefix, Pace: scanPace, Counters: d.options.Counters, Progress: d.table.progress,
			Skip: func(name string) bool { return d.table.plan.skip(name, finds) },
		}
		missed, err := d.table.Scan(ctx, filter, func(string) bool {
			if found++; found > pageRows { // the table has enough names for a page
				d.table.open()
			}
			return true
		})
		if ctx.Err() != nil {
			return
		}
		pause = d.table.end(began, found, err)
		if d.store.now().failing.IsZero() {
			d.refreshNames(ctx, missed[:min(len(missed), missingPolls)])
		}
	}
}

// plan decides which names a scan reads. A store may have more names than one scan can read
// within its pace. So a scan prefers names that no earlier scan has found, and names that users
// search for, to those that no scan has read yet, and these to names whose last read is the
// longest ago. A plan also remembers the names that turned out to be no locks.
type plan struct {
	mu     sync.Mutex
	seed   maphash.Seed
	names  map[uint64]visit // by the hash of a name
	unread int              // how many of the names no scan has read
	over   bool             // there are more than mostFound names

	number uint32 // the number of the present scan
	fresh  int    // how many names the present scan has found that no earlier scan has found
	found  int    // how many names for which users search the present scan may still read, beside the others
	left   int    // how many other names it may still read
	known  int    // how many of the others an earlier scan may have found
	again  int    // how many of these an earlier scan may have read
	every  uint32 // a name is read again in every scan of that many
}

// visit has the numbers of the scans that last found and last read a name. The number of the
// first scan is 1.
type visit struct{ found, read uint32 }

func newPlan() *plan { return &plan{seed: maphash.MakeSeed(), names: map[uint64]visit{}} }

// begin starts the next scan.
func (p *plan) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number++
	p.fresh, p.over = 0, false
	p.found, p.left, p.known, p.again = scanFound, scanReads-scanFound, scanKnown, scanKnown
	if p.unread > 0 {
		p.again = scanKnown / 8
	}
	p.every = uint32((len(p.names) - p.unread + p.again - 1) / p.again)
}

// skip reports whether the present scan shall not read a name. The parameter `finds` has texts
// for which users search now: names with one of them are read before others.
func (p *plan) skip(name string, finds []string) bool {
	key := maphash.String(p.seed, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	v, known := p.names[key]
	switch {
	case known && v.found == p.number:
		return true
	case !known && len(p.names) >= mostFound:
		p.over = true
		return true
	case !known:
		p.unread++
		p.fresh++
	}
	due := p.take(v, known)
	if !due && v.read == 0 && p.found > 0 && contains(name, finds) {
		due = true
		p.found--
	}
	if due {
		if v.read == 0 {
			p.unread--
		}
		v.read = p.number
	}
	v.found = p.number
	p.names[key] = v
	return !due
}

// take reports whether the present scan reads a name, and counts it then.
func (p *plan) take(v visit, known bool) bool {
	switch {
	case p.left == 0, known && p.known == 0:
		return false
	case v.read > 0 && (p.again == 0 || p.number-v.read < p.every):
		return false
	}
	p.left--
	if known {
		p.known--
	}
	if v.read > 0 {
		p.again--
	}
	return true
}

// contains reports whether a name contains one of the texts in `finds`.
func contains(name string, finds []string) bool {
	for _, find := range finds {
		if strings.Contains(strings.ToLower(printable(name)), find) {
			return true
		}
	}
	return false
}

// end forgets the names that the present scan, which was complete, has not found. It returns the
// number of names that the scan has found.
func (p *plan) end() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, v := range p.names {
		if v.found == p.number {
			continue
		}
		if v.read == 0 {
			p.unread--
		}
		delete(p.names, key)
	}
	return len(p.names)
}

// isOver reports whether the present scan has found too many names to remember all.
func (p *plan) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// count adds to s how many names the scans have found and read.
func (p *plan) count(s *scan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.read, s.unread = len(p.names)-p.unread, p.unread
	if grown := int(float64(s.all-s.before)*s.share) - p.fresh; s.running && !s.ended.IsZero() && grown > scanReads {
		s.unread += grown
	}
}

// scan is the state of the scans of all names.
type scan struct {
	began   time.Time     // when the present scan began, or the last one if none runs now
	running bool          // a scan runs now
	lasted  time.Duration // how long the last complete scan took
	ended   time.Time     // when the last complete scan ended; zero before the first one
	partial error         // why the last scan was not complete; nil if it was complete

	keys, all int // how many keys of the store the scan has looked at, and how many there are; 0 if unknown

	// These fields are from the last complete scan: how many keys the store had, and the part of
	// them that may be locks.
	before int
	share  float64

	read, unread int // how many names the scans have read, and about how many they have not read yet
}

// begin records that a scan begins.
func (t *table) begin() {
	t.plan.begin()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scan.began, t.scan.running, t.scan.keys = time.Now(), true, 0
}

// progress records how many keys the present scan has looked at, and how many there are.
func (t *table) progress(keys, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scan.keys, t.scan.all = keys, all
}

// end records the end of a scan, which started at the time `began` and has read the states of
// so many names. If err is nil, the scan was complete. It returns the pause before the next
// scan.
func (t *table) end(began time.Time, read int, err error) (pause time.Duration) {
	names := 0
	if err == nil {
		names = t.plan.end()
		if t.plan.isOver() {
			err = fmt.Errorf("%w: there are more than %d keys that may be locks", admin.ErrIncomplete, mostFound)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scan.running = false
	if t.scan.partial = err; err != nil {
		return scanRetry
	}
	t.scan.lasted, t.scan.ended = time.Since(began), time.Now()
	t.scan.before, t.scan.share = t.scan.all, 1
	if t.scan.all > 0 {
		t.scan.share = min(1, float64(names)/float64(t.scan.all))
	}
	t.open()
	return max(scanEvery, min(t.scan.cost(read)-t.scan.lasted, scanBurst*time.Second/scanPace))
}

func (t *table) now() scan {
	t.mu.Lock()
	s := t.scan
	t.mu.Unlock()
	t.plan.count(&s)
	return s
}

// cost returns about how long a scan takes that reads so many names.
func (s scan) cost(names int) time.Duration {
	commands := float64(s.all)*commandsPerKey + float64(names)*commandsPerRead
	return time.Duration(commands / scanPace * float64(time.Second))
}

// takes returns how long a scan takes now, with the pause after it.
func (s scan) takes() time.Duration {
	const pause = scanBurst * time.Second / scanPace
	takes := max(s.cost(min(s.read+s.unread, scanReads)), s.lasted+pause)
	if s.running {
		takes = max(takes, time.Since(s.began)+pause)
	}
	return takes
}

// progress describes what the scans have not read yet. It returns "" if all names were read, the
// last scan was complete, and a scan takes at most 10 s.
func (s scan) progress() string {
	var parts []string
	switch {
	case s.partial != nil:
		parts = append(parts, "the last scan was not complete")
	case s.ended.IsZero() && s.unread > 0: // says the same
	case s.ended.IsZero() && s.all > 0:
		parts = append(parts, fmt.Sprintf("the scan is still running: %d of about %d keys", s.keys, s.all))
	case s.ended.IsZero():
		parts = append(parts, "the scan is still running")
	}
	takes := s.takes()
	if s.unread > 0 {
		scans := 1 + math.Ceil(float64(s.unread)/(scanKnown-scanKnown/8)) // the names may be new in the present scan
		parts = append(parts, fmt.Sprintf("%d of about %d keys read, the rest within %s", s.read, s.read+s.unread, roughly(time.Duration(scans)*takes)))
	}
	if takes > 10*time.Second {
		parts = append(parts, "new names appear within "+roughly(2*takes))
	}
	return strings.Join(parts, "; ")
}

// roughly formats d, rounded up to 10 s, or from 2 min on to minutes.
func roughly(d time.Duration) string {
	step := 10 * time.Second
	if d >= 2*time.Minute {
		step = time.Minute
	}
	return strings.TrimSuffix(span((d + step - 1).Truncate(step)), " 00s")
}
