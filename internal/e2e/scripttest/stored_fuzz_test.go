package scripttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// What other programs, old versions and operators may have left in the place of
// a lock: nothing panics, nobody gets what somebody else may hold, and the error
// says which key it is.

// oddName is the lock that everything is planted on; oddOwner a client that is
// not of this process.
const (
	oddName  = "odd:42"
	oddOwner = "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57"
)

// oddTexts are values, fields, members and scores that a script may meet.
func oddTexts() []string {
	return []string{
		"", "0", "1", "-1", "2", "007", "-0", "1.5", "1e3", "0x10", " 1", "nan", "-nan", "inf", "-inf", "1e308",
		"9007199254740992", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "99999999999999999999999",
		"1600000000", "1600000000.5", "99999999999", "1e10", strconv.FormatInt(time.Now().Unix()+3600, 10),
		strconv.FormatInt(time.Now().UnixMilli()+3_600_000, 10), "922337203685477000", "1 x:1", strconv.FormatInt(time.Now().Unix()+3600, 10) + " x:1",
		"mode", "read", "write", "abandoned", "forced: \x1b[2J", "x", "x:1", "x:1:write", ":", ":write", oddOwner, oddOwner + ":write",
		"{}", `{"note":"\u001b[2J","pid":"x"}`, "\x00", "\xff\xfe", "a\r\nb", strings.Repeat("x", 300), strings.Repeat("\xf0", 40),
	}
}

// oddKeys are the keys that a lock of some kind may look at.
func oddKeys(counter string) []string {
	tag := "{" + oddName + "}"
	return []string{
		oddName, oddName, oddName, oddName, // the lock itself most of all
		counter, "redisson_lock_queue:" + tag, "redisson_lock_timeout:" + tag, "holdfast:fair:" + tag, tag + ":timeout",
		"holdfast:ts:" + tag, tag + ":x:1:rwlock_timeout:1", tag + ":" + oddOwner + ":rwlock_timeout:1", tag + ":x:rwlock_timeout:2",
		"holdfast:client:71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99", "holdfast:client:x", "redisson_lock_token:" + tag,
	}
}

// FuzzStored plants anything and tries all kinds of lock. The bytes choose the
// commands that plant, see planting.
func FuzzStored(f *testing.F) {
	g := openGarden(f)
	for _, c := range storedCases() {
		f.Add([]byte(c.name)) // some bytes; the cases themselves are TestStored's
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) <= 256 {
			g.check(t, g.planting(data))
		}
	})
}

// TestStoredAtRandom is some of what FuzzStored does, from a seed that it prints.
func TestStoredAtRandom(t *testing.T) {
	g := openGarden(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		data := make([]byte, random.IntN(64))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		g.check(t, g.planting(data))
	}
}

type storedCase struct{ name, commands string }

// storedCases are commands, separated by ";", with their words by spaces; K is
// the lock, T its hash tag and O a stranger.
func storedCases() []storedCase {
	return []storedCase{
		{"a string", "SET K text"},
		{"an empty string", "SET K \"\""},
		{"a list", "RPUSH K a b"},
		{"a set", "SADD K a b"},
		{"a sorted set", "ZADD K 1 a inf b"},
		{"a stream", "XADD K * a b"},
		{"an owner without a TTL", "HSET K O 1"},
		{"a count of 0", "HSET K O 0"},
		{"a negative count", "HSET K O -5"},
		{"a huge count", "HSET K O 99999999999999999999999"},
		{"a count that is none", "HSET K O x"},
		{"an empty owner", "HSET K \"\" 1"},
		{"many owners", "HSET K a 1 b 1 c 1 d 1 e 1 f 1"},
		{"an odd mode", "HSET K mode x O 1"},
		{"a mode and nobody", "HSET K mode write"},
		{"a reader with a huge count", "HSET K mode read O 99999999999999999999999;SET T:O:rwlock_timeout:1 1"},
		{"a reader with a negative count", "HSET K mode read O -1;SET T:O:rwlock_timeout:1 1"},
		{"a reader forever", "HSET K mode read O 1;SET T:O:rwlock_timeout:1 1"},
		{"a reader whose timeout is a list", "HSET K mode read O 1;RPUSH T:O:rwlock_timeout:1 x"},
		{"a writer with a huge count", "HSET K mode write O:write 9223372036854775808"},
		{"a negative counter", "SET K -3"},
		{"a huge counter", "SET K 99999999999999999999999"},
		{"the largest counter", "SET K 9223372036854775807"},
		{"a counter with zeros", "SET K 007"},
		{"permits that never end", "SET K 0;ZADD T:timeout inf a 1e308 b -inf c"},
		{"permits in a list", "SET K 3;RPUSH T:timeout a"},
		{"permits without a counter", "ZADD T:timeout 9e12 a 9e12 b 9e12 c"},
		{"an expired permit without a name", "ZADD T:timeout 0 \"\""},
		{"a queue that is a string", "SET redisson_lock_queue:T x"},
		{"a queue without deadlines", "RPUSH redisson_lock_queue:T O x \"\""},
		{"a queue forever", "RPUSH redisson_lock_queue:T O;ZADD redisson_lock_timeout:T inf O"},
		{"a token counter that is a list", "RPUSH C x"},
		{"a token counter that is text", "SET C x"},
		{"a token counter that is not a number", "SET C nan"},
		{"a token counter beyond its end", "SET C 9007199254740992"},
		{"an old client's time in milliseconds", "SET K 1600000000000"},
		{"a record without a lock", "SET holdfast:ts:T \"1600000000 O\""},
		{"a record that is a hash", "HSET holdfast:ts:T a b"},
		{"a registration that is a list", "HSET K O 1;RPUSH holdfast:client:71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99 x"},
	}
}

func TestStored(t *testing.T) {
	g := openGarden(t)
	for _, c := range storedCases() {
		t.Run(c.name, func(t *testing.T) {
			var plants [][]string
			for command := range strings.SplitSeq(c.commands, ";") {
				var words []string
				for word := range strings.SplitSeq(command, " ") {
					word = strings.Trim(word, `"`)
					word = strings.NewReplacer("K", oddName, "T", "{"+oddName+"}", "C", g.counter, "O", oddOwner).Replace(word)
					words = append(words, word)
				}
				words[0] = strings.Fields(command)[0]
				plants = append(plants, words)
			}
			g.check(t, plants)
		})
	}
}

// garden is a server to plant things on, and locks of all kinds on it.
type garden struct {
	conn    redishold.Conn
	do      *redishold.Script
	counter string // of the tokens of oddName
	kinds   []oddKind
}

// oddKind is one way to take oddName. taken says, of what is stored, that
// somebody else may hold it.
type oddKind struct {
	name   string
	store  *redishold.Backend
	claim  driver.Claim
	try    func(context.Context) (*holdfast.Lock, error)
	locker *holdfast.Locker
	taken  func(stored) bool
}

// openGarden starts a server for all the inputs of a test.
func openGarden(t testing.TB) *garden {
	t.Helper()
	server := redistest.Start(t)
	conn, err := rueidisconn.Open(t.Context(), server.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	g := &garden{conn: conn, do: redishold.NewScript("do", "return redis.pcall(unpack(ARGV))")}
	g.kinds = oddKindsOn(conn)
	for _, k := range g.kinds { // proves the rights, once
		lock, err := k.try(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		if err := lock.Unlock(); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		g.run(t, []string{"DEL", oddName})
	}
	for _, key := range server.Keys() {
		if strings.HasPrefix(key, "holdfast:token:") {
			g.counter = key
		}
	}
	return g
}

func oddKindsOn(conn redishold.Conn) []oddKind {
	redisson := redishold.New(conn, nil)
	plain := redishold.New(conn, &redishold.Options{Layout: redishold.Plain})
	timestamp := redishold.New(conn, &redishold.Options{Layout: redishold.Timestamp})
	l := holdfast.New(redisson, &holdfast.Options{TTL: 2 * time.Second})
	p, ts := holdfast.New(plain, &holdfast.Options{TTL: 2 * time.Second}), holdfast.New(timestamp, &holdfast.Options{TTL: 2 * time.Second})
	c := claim(oddName, "1")
	fair, read, write, permit := c, c, c, c
	fair.Fair, read.ReadWrite, write.ReadWrite, read.Mode = true, true, true, driver.Shared
	permit.Mode, permit.Permits = driver.Permit, 2
	try := func(m *holdfast.Mutex) func(context.Context) (*holdfast.Lock, error) {
		return func(ctx context.Context) (*holdfast.Lock, error) { return m.TryLock(ctx) }
	}
	there := func(s stored) bool { return s.kind != "none" }
	return []oddKind{
		{"mutex", redisson, c, try(l.Mutex(oddName)), l, there},
		{"fair mutex", redisson, fair, try(l.FairMutex(oddName)), l, there},
		{"read side", redisson, read, try(l.RWMutex(oddName).Read), l, func(s stored) bool { return there(s) && s.fields["mode"] != "read" }},
		{"write side", redisson, write, try(l.RWMutex(oddName).Write), l, stored.readOrWritten},
		{"semaphore", redisson, permit, func(ctx context.Context) (*holdfast.Lock, error) {
			return l.Semaphore(oddName, 2).TryAcquire(ctx)
		}, l, stored.exhausted},
		{"plain", plain, c, try(p.Mutex(oddName)), p, there},
		{"timestamp", timestamp, c, try(ts.Mutex(oddName)), ts, stored.stamped},
	}
}

// run runs one command after the other; what the server refuses, it refuses.
func (g *garden) run(t testing.TB, commands ...[]string) []any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var calls []redishold.Call
	for _, c := range commands {
		calls = append(calls, redishold.Call{Script: g.do, Args: c})
	}
	var values []any
	for i, r := range g.conn.Do(ctx, calls...) {
		var reply *redishold.ReplyError
		if r.Err != nil && !errors.As(r.Err, &reply) {
			t.Fatalf("%q: %v", commands[i], r.Err)
		}
		values = append(values, r.Value)
	}
	return values
}

// planting makes commands of bytes.
func (g *garden) planting(data []byte) [][]string {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	texts, keys := oddTexts(), oddKeys(g.counter)
	text := func() string {
		if i := next(); i < 4*len(texts) {
			return texts[i%len(texts)]
		}
		n := min(next()%16, len(data))
		s := string(data[:n])
		data = data[n:]
		return s
	}
	var plants [][]string
	for len(data) > 0 && len(plants) < 8 {
		key := keys[next()%len(keys)]
		switch next() % 8 {
		case 0, 1:
			plants = append(plants, []string{"SET", key, text()})
		case 2:
			plants = append(plants, []string{"HSET", key, text(), text(), text(), text()})
		case 3:
			plants = append(plants, []string{"HSET", key, "mode", []string{"read", "write"}[next()%2], text(), text()})
		case 4:
			plants = append(plants, []string{"RPUSH", key, text(), text()})
		case 5:
			plants = append(plants, []string{"ZADD", key, text(), text()}, []string{"ZADD", key, strconv.Itoa(next() << 35), text()})
		case 6:
			plants = append(plants, []string{"SADD", key, text()})
		default:
			plants = append(plants, []string{"PEXPIRE", key, []string{"100000", "9000000000000000"}[next()%2]})
		}
	}
	return plants
}

// check plants and tries every kind.
func (g *garden) check(t *testing.T, plants [][]string) {
	t.Helper()
	for _, k := range g.kinds {
		g.run(t, append([][]string{{"FLUSHDB"}}, plants...)...)
		before := g.look(t)
		g.touchAsStranger(t, k, before)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		lock, err := k.try(ctx)
		switch {
		case err == nil && k.taken(before):
			t.Errorf("%s: granted over %+v, planted by %q", k.name, before, plants)
		case err != nil && !strings.Contains(err.Error(), oddName):
			t.Errorf("%s: %q does not name the key; planted by %q", k.name, err, plants)
		case errors.Is(err, context.DeadlineExceeded):
			t.Errorf("%s: hangs, planted by %q: %v", k.name, plants, err)
		case err != nil && lock != nil:
			t.Errorf("%s: a lock beside error %v", k.name, err)
		}
		if lock != nil {
			_ = lock.Unlock() // what was planted may make that fail
		}
		g.breakAll(t, k)
		// What is stored may keep clean-up from its end, for one TTL at most.
		if err := k.locker.Drain(ctx); err != nil {
			t.Errorf("%s: Drain: %v, planted by %q", k.name, err, plants)
		}
		cancel()
	}
	g.run(t, append([][]string{{"FLUSHDB"}}, plants...)...)
	g.count(t)
}

// touchAsStranger renews, releases and breaks what it never held: that must
// change nothing.
func (g *garden) touchAsStranger(t *testing.T, k oddKind, before stored) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if rs, err := k.store.Renew(ctx, []driver.Claim{k.claim}); err == nil && rs[0].Err == nil {
		t.Errorf("%s: renewed what it never held: %+v", k.name, before)
	}
	for _, indeterminate := range []bool{false, true} {
		c := k.claim
		c.Indeterminate = indeterminate
		if err := k.store.Release(ctx, c); err == nil {
			t.Errorf("%s: released what it never held: %+v", k.name, before)
		}
	}
	h := admin.Holder{Owner: k.claim.Owner, Holds: 1}
	if err := k.store.ForceUnlock(ctx, oddName, h, "test"); err == nil {
		t.Errorf("%s: broke a hold that is not there: %+v", k.name, before)
	}
	if after := g.look(t); after.dump != before.dump {
		t.Errorf("%s: changed by a stranger: was %+v, is %+v", k.name, before, after)
	}
	g.run(t, []string{"DEL", "holdfast:gone:{" + oddName + "}:" + k.claim.Owner})
}

// breakAll ends all holds that can be seen.
func (g *garden) breakAll(t *testing.T, k oddKind) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	holders, err := dial.Holders(ctx, k.store, oddName)
	if err != nil && !strings.Contains(err.Error(), oddName) {
		t.Errorf("%s: Get: %q does not name the key", k.name, err)
	}
	for _, h := range holders {
		_ = k.store.ForceUnlock(ctx, oddName, h, "test")
	}
}

// count uses the planted key as a latch and as counters.
func (g *garden) count(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	before := g.look(t)
	store := g.kinds[0].store
	n, err := store.Count(ctx, oddName)
	if open := err == nil && n == 0; open && before.kind != "none" && before.number() > 0 {
		t.Errorf("an open latch: %+v", before)
	}
	permits := store.PlainSemaphore(oddName)
	if got, err := permits.TryAcquire(ctx, 2); got && before.number() < 2 {
		t.Errorf("2 permits of %+v, error %v", before, err)
	}
	if err := store.CountDown(ctx, oddName, "C1"); err == nil {
		if left, err := store.Count(ctx, oddName); err != nil || left < 0 || left >= max(n, 1) && n < 1<<53 { // what is larger is shown as that
			t.Errorf("counted down from %d of %+v: got %d, error %v", n, before, left, err)
		}
	}
	if set, err := store.SetCount(ctx, oddName, "C2", 3); err == nil && set {
		if n, err := store.Count(ctx, oddName); err != nil || n != 3 {
			t.Errorf("a latch of 3 in place of %+v: got %d, error %v", before, n, err)
		}
	}
	if err := store.Resize(ctx, oddName, 3); err == nil {
		if total, _, err := store.Permits(ctx, oddName); err != nil || total != 3 {
			t.Errorf("3 permits in place of %+v: got %d, error %v", before, total, err)
		}
	}
	if err := permits.Release(ctx, 1); err == nil {
		if n, err := permits.Available(ctx); err != nil {
			t.Errorf("permits after one more of %+v: %d, error %v", before, n, err)
		}
	}
	if drained, err := permits.Drain(ctx); err == nil {
		if got, err := permits.TryAcquire(ctx, 1); got || err != nil {
			t.Errorf("a permit after all %d of %+v were taken: %v, error %v", drained, before, got, err)
		}
	}
	if err := permits.Settle(ctx); err != nil {
		t.Errorf("Settle: %v", err)
	}
}

// stored is what is stored in the place of oddName.
type stored struct {
	kind    string // as TYPE says
	text    string
	fields  map[string]string
	readers map[string]bool // fields that have a live timeout key among their first ones
	permits map[string]float64
	record  string // of a timestamp lock
	dump    string // as DUMP says, in hex
}

// look reads it all.
func (g *garden) look(t *testing.T) stored {
	t.Helper()
	tag := "{" + oddName + "}"
	values := g.run(t,
		[]string{"TYPE", oddName}, []string{"GET", oddName}, []string{"HGETALL", oddName},
		[]string{"ZRANGE", tag + ":timeout", "0", "-1", "WITHSCORES"}, []string{"GET", "holdfast:ts:" + tag}, []string{"DUMP", oddName})
	s := stored{fields: map[string]string{}, readers: map[string]bool{}, permits: map[string]float64{}}
	s.kind, _ = values[0].(string)
	s.text, _ = values[1].(string)
	s.record, _ = values[4].(string)
	s.dump = fmt.Sprintf("%x", values[5])
	maps.Insert(s.fields, eachPair(values[2]))
	for member, score := range eachPair(values[3]) {
		s.permits[member], _ = strconv.ParseFloat(score, 64)
	}
	for field, count := range s.fields {
		n, _ := strconv.ParseFloat(count, 64)
		for i := 1; i <= int(min(n, 3)); i++ {
			if g.run(t, []string{"EXISTS", fmt.Sprintf("%s:%s:rwlock_timeout:%d", tag, field, i)})[0] == any(int64(1)) {
				s.readers[field] = true
			}
		}
	}
	return s
}

// eachPair reads a reply of names and values.
func eachPair(v any) func(yield func(string, string) bool) {
	list, _ := v.([]any)
	return func(yield func(string, string) bool) {
		for pair := range slices.Chunk(list, 2) {
			name, _ := pair[0].(string)
			value, _ := pair[len(pair)-1].(string)
			if !yield(name, value) {
				return
			}
		}
	}
}

// number returns what a counter holds, 0 if it is none.
func (s stored) number() float64 {
	n, err := strconv.ParseFloat(s.text, 64)
	if err != nil || s.kind != "string" {
		return 0
	}
	return n
}

// readOrWritten says that a writer must not come in.
func (s stored) readOrWritten() bool {
	return s.kind != "none" && (s.fields["mode"] != "read" || len(s.readers) > 0)
}

// exhausted says that no permit of 2 is free.
func (s stored) exhausted() bool {
	free := s.number()
	switch {
	case s.kind == "none":
		free = 2 - float64(len(s.permits))
	case s.kind != "string":
		return true
	}
	for _, ends := range s.permits {
		if ends >= 0 && ends <= float64(time.Now().UnixMilli()) {
			free++
		}
	}
	return free < 1
}

// stamped says that a timestamp lock has a holder, or that it is none.
func (s stored) stamped() bool {
	if until, owner, ok := strings.Cut(s.record, " "); ok && owner != "" && until != "" && strings.Trim(until, "0123456789") == "" {
		return true
	}
	switch s.kind {
	case "none":
		return false
	case "string":
		return !(s.number() >= 1e9 && s.number() < float64(time.Now().Unix()))
	default:
		return true
	}
}
