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

func (e *exam) tryKinds(ctx context.Context, b *redishold.Backend, name string) []Finding {
	client, claims := uuid.New(), uint64(0)
	hold := func(c driver.Claim) func(context.Context) error {
		claims++
		c.Name, c.Client, c.Seq, c.Owner = name, client, claims, fmt.Sprintf("%s:%d", client, claims)
		return func(ctx context.Context) error { return tryLock(ctx, b, c) }
	}
	caps := b.Info().Caps
	trials := []struct {
		has      bool
		id, kind string
		try      func(context.Context) error
	}{
		{true, "rights-mutex", "a mutex", hold(driver.Claim{})},
		{caps.Fair, "rights-fair", "a fair lock", hold(driver.Claim{Fair: true})},
		{caps.Shared, "rights-read-write", "a read-write lock", hold(driver.Claim{Mode: driver.Shared, ReadWrite: true})},
		{caps.Permits, "rights-semaphore", "a semaphore", func(ctx context.Context) error {
			_, _, err := b.Permits(ctx, name)
			return err
		}},
		{caps.Latches, "rights-latch", "a latch", func(ctx context.Context) error {
			_, err := b.Count(ctx, name)
			return err
		}},
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
		found = append(found, judgeTrial(t.id, t.kind, err))
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
	c.TTL, c.Count, c.Tokens, c.Note = scratchTTL, 1, 1, "holdfast doctor"
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

func judgeTrial(id, kind string, err error) Finding {
	f := Finding{ID: id, Severity: Note}
	switch {
	case err == nil:
		return Finding{ID: id, Saw: kind + " works"}
	case wire.Means(err, wire.MeansNoCommand):
		f.Saw, f.Remedy = kind+" does not work: "+err.Error(), "connect to the server without a proxy, or use a server that has the command"
	case layout.BadCounter(err.Error()):
		return Finding{ID: "token-counter", Severity: Danger, Saw: kind + " does not work: " + err.Error()}
	case errors.As(err, new(*redishold.ReplyError)):
		f.Saw, f.Remedy = kind+" does not work: "+err.Error(), "grant the permission that the message names; docs/redis.md lists all permissions"
	default:
		f.Severity, f.Saw = Unknown, "it is unknown whether "+kind+" works: "+err.Error()
	}
	if rules := missing(err); rules != "" {
		f.Remedy = setUser + rules
	}
	if id == "rights-mutex" { // without the permission for a mutex no lock works
		f.Severity = Danger
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
	f := Finding{ID: id, Severity: Warning}
	took, err := e.echo(ctx, key, command, channel)
	switch {
	case wire.Means(err, wire.MeansNoCommand):
		f.Saw = "Pub/Sub does not work: " + err.Error() // no permission would change that
	case errors.As(err, new(*redishold.ReplyError)):
		f.Saw, f.Remedy = "the server refuses Pub/Sub: "+err.Error(), rights
	case err != nil:
		f.Saw = "a test message did not arrive: " + err.Error()
	case took >= time.Second:
		f.Severity, f.Saw, f.Remedy = Note, "a test message took "+short(took), "check the connection to the server, and the load of the server"
	default:
		f.Severity = OK
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
	partly := ""
	var failed error
	for r, err := range b.List(ctx, admin.Filter{Keys: e.options.Keys}) {
		if err != nil {
			failed, partly = err, " among the keys that were read"
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
		findings = append(findings, Finding{ID: "two-kinds", Severity: Note, Saw: "read-write locks with a hold that has no lease" + partly + ": " + mixed.String()})
	}
	return findings
}

// endless returns the finding about locks that have no end. The parameter `failed` is the error
// with which the list of the locks ended.
func (e *exam) endless(found *names, partly string, failed error) Finding {
	f := Finding{ID: "endless-locks"}
	switch {
	case found.count > 0:
		f.Severity = Warning
		if e.options.Redis.Layout != redishold.Redisson { // a string of the program looks like a lock
			f.Severity, f.special = Note, "string"
		}
		f.Saw = "locks with a holder, but without a TTL" + partly + ": " + found.String()
	case wire.Means(failed, wire.MeansNoCommand):
		f.Severity, f.Saw = Unknown, "the doctor cannot read the keys: "+failed.Error()
	case errors.As(failed, new(*redishold.ReplyError)):
		f.Severity, f.Saw = Unknown, "the doctor cannot read the keys: "+failed.Error()
		rules := strings.Fields(missing(failed))
		for _, rule := range []string{"+scan", "+type", "+cluster|slots"} {
			if !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
		}
		f.Remedy = setUser + strings.Join(rules, " ")
	case failed != nil && !errors.Is(failed, admin.ErrIncomplete) && !errors.Is(failed, context.DeadlineExceeded):
		f.Severity, f.Saw = Unknown, "the doctor could not read the keys: "+failed.Error()
	default:
		f.Saw = "there is no lock without an end" + partly
	}
	return f
}
