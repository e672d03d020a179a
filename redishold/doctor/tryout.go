package doctor

import (
	"context"
	"crypto/rand"
	_ "embed" // publish.lua
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/uuid"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	tryLimit   = 5 * time.Second // for all tries of a test lock of one kind
	scratchTTL = 5 * time.Second // the TTL of a test lock; if the release fails, the lock is free after this time
	listLimit  = 3 * time.Second
	listShown  = 5
	maxTries   = 5
)

// tryOut uses locks as programs do, and returns findings about what is possible and what is
// not.
func (e *exam) tryOut(ctx context.Context) []Finding {
	b := redishold.New(e.conn, &e.options.Redis)
	scratch := e.options.Name + "holdfast-doctor"
	found := append(e.tryKinds(ctx, b, scratch), e.tryMessages(ctx, scratch)...)
	if e.options.Keys > 0 {
		found = append(found, e.findLocks(ctx, b)...)
	}
	return found
}

// trial is a try of one kind of lock.
type trial struct {
	has  bool // the layout has locks of this kind
	id   string
	kind string // such as "a mutex"
	why  string // why it matters if locks of this kind do not work
	try  func(context.Context) error
}

func (e *exam) tryKinds(ctx context.Context, b *redishold.Backend, name string) []Finding {
	client := uuid.New()
	claims := uint64(0)
	hold := func(c driver.Claim) func(context.Context) error {
		claims++
		c.Name = name
		c.Client = client
		c.Seq = claims
		c.Owner = fmt.Sprintf("%s:%d", client, claims)
		return func(ctx context.Context) error { return tryLock(ctx, b, c) }
	}
	caps := b.Info().Caps
	permits := func(ctx context.Context) error {
		_, _, err := b.Permits(ctx, name)
		return err
	}
	count := func(ctx context.Context) error {
		_, err := b.Count(ctx, name)
		return err
	}
	trials := []trial{
		{true, "rights-mutex", "a mutex", "No program with this user can take a lock.", hold(driver.Claim{})},
		{caps.Fair, "rights-fair", "a fair lock", "Programs that use fair locks fail.", hold(driver.Claim{Fair: true})},
		{caps.Shared, "rights-read-write", "a read-write lock", "Programs that use read-write locks fail.", hold(driver.Claim{Mode: driver.Shared, ReadWrite: true})},
		{caps.Permits, "rights-semaphore", "a semaphore", "Programs that use semaphores fail.", permits},
		{caps.Latches, "rights-latch", "a latch", "Programs that use latches fail.", count},
	}
	var found []Finding
	for _, t := range trials {
		if !t.has {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		err := t.try(ctx)
		for tries := 0; tries < maxTries && certain(err); tries++ { // another node of a cluster may reply
			err = t.try(ctx)
		}
		found = append(found, t.judge(err))
		cancel()
	}
	return found
}

// certain reports whether err says that no connection could be made and nothing was sent.
func certain(err error) bool {
	return errors.Is(err, driver.ErrNotExecuted) && !errors.Is(err, driver.ErrRefused) && !errors.As(err, new(*redishold.ReplyError))
}

// tryLock takes a test lock and releases it. Before the first lock of a kind, the Backend
// checks the permissions for all commands of this kind. It is no failure if another doctor has
// the lock.
func tryLock(ctx context.Context, b *redishold.Backend, c driver.Claim) error {
	c.TTL = scratchTTL
	c.Count = 1
	c.Tokens = 1
	c.Note = "holdfast doctor"
	_, err := b.Try(ctx, c)
	if errors.Is(err, driver.ErrMismatch) {
		return nil
	}
	if err == nil || !errors.Is(err, driver.ErrNotExecuted) {
		// A claim without a grant is released, too, because it may be in a queue. The release
		// is sent even if ctx has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
		defer cancel()
		err = errors.Join(err, b.Release(ctx, c))
	}
	return err
}

// missing returns the ACL rules that an error of redishold names as missing, or "" if the error
// names none.
func missing(err error) string {
	for _, prefix := range []string{"grant it with: " + setUser, "grant the user "} {
		_, rules, ok := strings.Cut(err.Error(), prefix)
		rules, _, _ = strings.Cut(rules, "\n") // err may be several joined errors
		if ok && rules != "" && strings.Contains("+~&", rules[:1]) {
			return rules
		}
	}
	return ""
}

// judge returns the Finding for the error of the last try.
func (t *trial) judge(err error) Finding {
	if err == nil {
		return Finding{ID: t.id, Saw: t.kind + " works"}
	}
	f := Finding{ID: t.id, Severity: Note, Saw: t.kind + " does not work: " + err.Error(), Why: t.why}
	switch {
	case wire.Means(err, wire.MeansNoCommand):
		f.Remedy = "connect to the server without a proxy, or use a server that has the command"
	case layout.BadCounter(err.Error()):
		return Finding{
			ID: "token-counter", Severity: Danger, Saw: f.Saw,
			Why: "No lock in the same hash slot gets a fencing token, so no such lock is granted.",
			Remedy: "delete the key that the message names; new tokens come from the clock of the server and are larger than all earlier tokens. " +
				"If a resource has stored a larger token, delete it there, too",
		}
	case errors.As(err, new(*redishold.ReplyError)):
		f.Remedy = "grant the permission that the message names; docs/redis.md lists all permissions"
	default:
		f.Severity = Unknown
		f.Saw = "it is unknown whether " + t.kind + " works: " + err.Error()
		f.Why = ""
	}
	if rules := missing(err); rules != "" {
		f.Remedy = setUser + rules
	}
	if t.id == "rights-mutex" { // without the permission for a mutex no lock works
		f.Severity = Danger
		f.Why = t.why
	}
	return f
}

// tryMessages subscribes and publishes messages, as waiters and releases do.
func (e *exam) tryMessages(ctx context.Context, scratch string) []Finding {
	own := ""
	if e.options.Redis.Layout != redishold.Redisson {
		own = "own"
	}
	l := layout.New(e.options.Redis.KeyPrefix, own, false)
	k := l.ComputeKeys(scratch + ":" + rand.Text())
	rights := setUser + "&" + l.ChannelPrefix(k.Channel) + "* +publish +subscribe +unsubscribe"
	found := []Finding{e.tryMessage(ctx, "pubsub", k.Lock, "PUBLISH", redishold.Channel{Name: k.Channel}, rights)}
	if e.cluster() && slices.ContainsFunc(e.servers, (*server).shards) {
		rights += " +spublish +ssubscribe +sunsubscribe"
		found = append(found, e.tryMessage(ctx, "pubsub-sharded", k.Lock, "SPUBLISH", redishold.Channel{Name: k.Channel, Sharded: true}, rights))
	}
	return found
}

func (e *exam) tryMessage(ctx context.Context, id, key, command string, channel redishold.Channel, rights string) Finding {
	f := Finding{
		ID: id, Severity: Warning,
		Why:    "Waiters get no message about a release. They poll, and notice a release up to a second late.",
		Remedy: "connect without a proxy that drops messages, or set redishold.Options.Poll",
	}
	took, err := e.echo(ctx, key, command, channel)
	switch {
	case wire.Means(err, wire.MeansNoCommand):
		f.Saw = "Pub/Sub does not work: " + err.Error() // no permission would change that
	case errors.As(err, new(*redishold.ReplyError)):
		f.Saw = "the server refuses Pub/Sub: " + err.Error()
		f.Remedy = rights
	case err != nil:
		f.Saw = "a test message did not arrive: " + err.Error()
	case took >= time.Second:
		f.Severity = Note
		f.Saw = "a test message took " + short(took)
		f.Remedy = "check the connection to the server, and the load of the server"
	default:
		return Finding{ID: id, Saw: "messages arrive"}
	}
	return f
}

//go:embed publish.lua
var publishSource string

// echo subscribes to channel, publishes a message there, and returns the time until the message
// arrives.
func (e *exam) echo(ctx context.Context, key, command string, channel redishold.Channel) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	arrived := make(chan time.Time, 1)
	sub, err := e.conn.Subscribe(ctx, channel, func(n redishold.Notice) {
		if !n.Subscribed {
			select {
			case arrived <- time.Now():
			default:
			}
		}
	})
	if err != nil {
		return 0, err
	}
	defer sub.Close()
	start := time.Now()
	if result := e.conn.Do(ctx, redishold.Call{
		Script: redishold.NewScript("doctor_publish", publishSource), Source: true,
		Keys: []string{key}, Args: []string{command, channel.Name, "doctor"},
	})[0]; result.Err != nil {
		return 0, result.Err
	}
	select {
	case at := <-arrived:
		return at.Sub(start), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// names are the names of locks with a fault: some of them, and the number of all.
type names struct {
	shown []string
	count int
}

func (n *names) add(name string) {
	if n.count++; len(n.shown) < listShown {
		n.shown = append(n.shown, fmt.Sprintf("%q", name))
	}
}

// String returns the names that are shown, and how many more there are.
func (n *names) String() string {
	text := strings.Join(n.shown, ", ")
	if n.count > len(n.shown) {
		text += fmt.Sprintf(", and %d more", n.count-len(n.shown))
	}
	return text
}

// findLocks reads the locks of the store, and returns findings about locks with a fault.
func (e *exam) findLocks(ctx context.Context, b *redishold.Backend) []Finding {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	var endless, mixed names
	var failed error
	partly := ""
	for r, err := range b.List(ctx, admin.Filter{Keys: e.options.Keys}) {
		if err != nil {
			failed = err
			partly = " among the keys that were read"
			continue
		}
		if r.Remaining < 0 && r.Holders > 0 && r.Kind != admin.KindSemaphore {
			endless.add(r.Name)
		}
		if len(r.Unleased) > 0 {
			mixed.add(r.Name)
		}
	}
	findings := []Finding{e.endless(&endless, partly, failed)}
	if mixed.count > 0 {
		findings = append(findings, Finding{
			ID: "two-kinds", Severity: Note, Saw: "read-write locks with a hold that has no lease" + partly + ": " + mixed.String(),
			Why:    "Such a hold is that of a reader that died, or of a Mutex of the same name. Redisson takes a read-write lock over a Mutex, so both are held.",
			Remedy: "holdfast inspect NAME; give each name one kind of lock",
		})
	}
	return findings
}

// endless returns the finding about locks that have no end. The parameter `failed` is the error
// with which the list of the locks ended.
func (e *exam) endless(found *names, partly string, failed error) Finding {
	f := Finding{ID: "endless-locks"}
	switch {
	case found.count > 0:
		f.Saw = "locks with a holder, but without a TTL" + partly + ": " + found.String()
		if e.options.Redis.Layout == redishold.Redisson {
			f.Severity = Warning
			f.Why = "A lock without an end never becomes free if its holder dies. " +
				"A program leaves such a lock behind if it is killed while it locks, or lacks the permission for pexpire."
			f.Remedy = "holdfast inspect NAME; if nobody holds the lock: holdfast force-unlock NAME"
		} else {
			f.Severity = Note
			f.Why = "In this layout a lock is a plain string, so other strings without an end are counted, too. " +
				"If the key is a lock, it never becomes free if its holder dies."
			f.Remedy = "only if you know the key as a lock that nobody holds: holdfast force-unlock NAME; it deletes the key, also if that is your data"
		}
	case wire.Means(failed, wire.MeansNoCommand):
		f.Severity = Unknown
		f.Saw = "the doctor cannot read the keys: " + failed.Error()
	case errors.As(failed, new(*redishold.ReplyError)):
		f.Severity = Unknown
		f.Saw = "the doctor cannot read the keys: " + failed.Error()
		rules := strings.Fields(missing(failed))
		for _, rule := range []string{"+scan", "+type", "+cluster|slots"} {
			if !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
		}
		f.Remedy = setUser + strings.Join(rules, " ")
	case failed != nil && !errors.Is(failed, admin.ErrIncomplete) && !errors.Is(failed, context.DeadlineExceeded):
		f.Severity = Unknown
		f.Saw = "the doctor could not read the keys: " + failed.Error()
	default:
		f.Saw = "there is no lock without an end" + partly
	}
	return f
}
