package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

const (
	tryLimit   = 5 * time.Second // for all scratch locks of a kind
	scratchTTL = 5 * time.Second // should a scratch lock be left behind
	listLimit  = 3 * time.Second
	listShown  = 5
	tryAgain   = 5
)

// tryOut does what programs do with locks, and says what they would not be able
// to do.
func (e *exam) tryOut(ctx context.Context) []Finding {
	b := redishold.New(e.conn, &e.options.Redis)
	scratch := e.options.Name + "holdfast-doctor"
	found := e.tryKinds(ctx, b, scratch)
	found = append(found, e.tryMessages(ctx, scratch)...)
	if e.options.Keys > 0 {
		found = append(found, e.findEndless(ctx, b))
	}
	return found
}

// trial is one kind of lock to try out.
type trial struct {
	id, kind string
	needed   bool // without it nothing is of use
	try      func(context.Context) error
}

func (e *exam) tryKinds(ctx context.Context, b *redishold.Backend, name string) []Finding {
	client, claims := newClient(), uint64(0)
	hold := func(c driver.Claim) func(context.Context) error {
		claims++
		c.Name, c.Client, c.Seq, c.Owner = name, client, claims, fmt.Sprintf("%s:%d", client, claims)
		return func(ctx context.Context) error { return tryLock(ctx, b, c) }
	}
	trials := []trial{{"rights-mutex", "a mutex", true, hold(driver.Claim{})}}
	caps := b.Info().Caps
	if caps.Fair {
		trials = append(trials, trial{"rights-fair", "a fair lock", false, hold(driver.Claim{Fair: true})})
	}
	if caps.Shared {
		trials = append(trials, trial{"rights-read-write", "a read-write lock", false, hold(driver.Claim{Mode: driver.Shared, ReadWrite: true})})
	}
	if caps.Permits {
		trials = append(trials, trial{"rights-semaphore", "a semaphore", false, func(ctx context.Context) error {
			_, _, err := b.Permits(ctx, name)
			return err
		}})
	}
	if caps.Latches {
		trials = append(trials, trial{"rights-latch", "a latch", false, func(ctx context.Context) error {
			_, err := b.Count(ctx, name)
			return err
		}})
	}
	var found []Finding
	for _, t := range trials {
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		err := t.try(ctx)
		for again := 0; again < tryAgain && certain(err); again++ { // another node of a cluster may answer
			err = t.try(ctx)
		}
		found = append(found, t.judge(err))
		cancel()
	}
	return found
}

// certain reports that nothing was sent because no connection could be made.
func certain(err error) bool {
	return errors.Is(err, driver.ErrNotExecuted) && !errors.Is(err, driver.ErrRefused) && !errors.As(err, new(*redishold.ReplyError))
}

// tryLock takes a scratch lock and gives it back. Before the first of a kind the
// Backend proves the rights for all that goes with it. That another doctor is at
// it is no failure.
func tryLock(ctx context.Context, b *redishold.Backend, c driver.Claim) error {
	c.TTL, c.Holds, c.Tokens, c.Note = scratchTTL, 1, 1, "holdfast doctor"
	_, err := b.Try(ctx, c)
	if errors.Is(err, driver.ErrMismatch) {
		return nil
	}
	if err == nil || !errors.Is(err, driver.ErrNotExecuted) {
		// Also where it was not granted: a queue must not keep the claim. ctx may have
		// ended, and that is no reason to leave something behind.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
		defer cancel()
		err = errors.Join(err, b.Release(ctx, c))
	}
	return err
}

// newClient returns a UUID, as owners begin with in Redisson's layout.
func newClient() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// setUser is how rights are granted.
const setUser = "ACL SETUSER <user> "

// missing returns the rules that would grant what err, of redishold, says the user
// may not do; "" if it is not about that, or does not know.
func missing(err error) string {
	if err == nil {
		return ""
	}
	for _, begin := range []string{"grant it with: " + setUser, "grant the user "} {
		_, rules, ok := strings.Cut(err.Error(), begin)
		rules, _, _ = strings.Cut(rules, "\n") // of errors that were joined
		if ok && rules != "" && strings.Contains("+~&", rules[:1]) {
			return rules
		}
	}
	return ""
}

// withRules returns rules with those of more that they lack.
func withRules(rules string, more ...string) string {
	list := strings.Fields(rules)
	for _, rule := range more {
		if !slices.Contains(list, rule) {
			list = append(list, rule)
		}
	}
	return strings.Join(list, " ")
}

func (t trial) judge(err error) Finding {
	f := Finding{ID: t.id, Severity: Note}
	var reply *redishold.ReplyError
	switch {
	case err == nil:
		return Finding{ID: t.id, Saw: t.kind + " can be had"}
	case !errors.As(err, &reply):
		f.Severity, f.Saw = Unknown, "nobody knows whether "+t.kind+" can be had: "+err.Error()
	default:
		f.Saw = t.kind + " cannot be had: " + err.Error()
		f.Why = "Programs that use that kind fail."
		f.Remedy = "the message names what to grant; all rights are in docs/redis.md"
	}
	if rules := missing(err); rules != "" {
		f.Remedy = setUser + rules
	}
	if t.needed {
		f.Severity = Danger
		f.Why = "No program with this user can lock."
	}
	return f
}

// tryMessages sends messages to itself, as a release does to those who wait.
func (e *exam) tryMessages(ctx context.Context, scratch string) []Finding {
	name := scratch + ":" + rand.Text()
	key := e.options.Redis.Prefix + name
	channel := releaseChannel(e.options.Redis.Protocol, key)
	found := []Finding{e.tryMessage(ctx, "pubsub", key, "PUBLISH", redishold.Channel{Name: channel})}
	if e.cluster() && slices.ContainsFunc(e.servers, (*server).shards) {
		found = append(found, e.tryMessage(ctx, "pubsub-sharded", key, "SPUBLISH", redishold.Channel{Name: channel, Sharded: true}))
	}
	return found
}

// channelFamily is what the channels begin with on which releases are announced.
func channelFamily(p redishold.Protocol) string {
	if p == redishold.Redisson {
		return "redisson_lock__channel:"
	}
	return "holdfast:free:"
}

// releaseChannel returns where the release of the lock at key is announced.
func releaseChannel(p redishold.Protocol, key string) string {
	switch {
	case !strings.Contains(key, "{"):
		return channelFamily(p) + "{" + key + "}"
	case p == redishold.Redisson:
		return channelFamily(p) + key
	default:
		return channelFamily(p) + ":" + key
	}
}

func (e *exam) tryMessage(ctx context.Context, id, key, command string, channel redishold.Channel) Finding {
	f := Finding{
		ID: id, Severity: Warning,
		Why: "Programs that wait for a lock do not hear of its release: they ask again, up to a second later.",
	}
	took, err := e.echo(ctx, key, command, channel)
	var reply *redishold.ReplyError
	switch {
	case errors.As(err, &reply):
		f.Saw = "messages are refused: " + err.Error()
		f.Remedy = setUser + "&" + channelFamily(e.options.Redis.Protocol) + "* +publish +subscribe +unsubscribe"
		if channel.Sharded {
			f.Remedy += " +spublish +ssubscribe +sunsubscribe"
		}
		return f
	case err != nil:
		f.Saw = "a message that was sent did not arrive: " + err.Error()
		f.Remedy = "connect without a proxy that does not pass messages on, or set redishold.Options.Poll"
		return f
	case took >= time.Second:
		f.Severity = Note
		f.Saw = "a message took " + short(took)
		f.Remedy = "look at the link, and at the load of the server"
		return f
	}
	return Finding{ID: id, Saw: "messages arrive"}
}

// echo subscribes to channel, sends a message there and returns how long it took
// to come back.
func (e *exam) echo(ctx context.Context, key, command string, channel redishold.Channel) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	arrived := make(chan time.Time, 1)
	sub, err := e.conn.Subscribe(ctx, channel, func(n redishold.Notice) {
		if n.Subscribed {
			return
		}
		select {
		case arrived <- time.Now():
		default:
		}
	})
	if err != nil {
		return 0, err
	}
	defer sub.Close()
	start := time.Now()
	result := e.conn.Do(ctx, redishold.Call{
		Script: redishold.NewScript("doctor_publish", publishSource), Source: true,
		Keys: []string{key}, Args: []string{command, channel.Name, "doctor"},
	})[0]
	if result.Err != nil {
		return 0, result.Err
	}
	select {
	case at := <-arrived:
		return at.Sub(start), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// findEndless looks for locks that nothing ends.
func (e *exam) findEndless(ctx context.Context, b *redishold.Backend) Finding {
	const id = "endless-locks"
	lister, ok := any(b).(admin.Source)
	if !ok {
		return Finding{ID: id, Severity: Unknown, Saw: "this store does not tell what is locked"}
	}
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	var names []string
	count := 0
	var failed error
	for r, err := range lister.List(ctx, admin.Filter{Keys: e.options.Keys}) {
		switch {
		case err != nil:
			failed = err
		case r.Remaining < 0 && r.Holders > 0 && r.Kind != admin.KindSemaphore:
			if count++; len(names) < listShown {
				names = append(names, fmt.Sprintf("%q", r.Name))
			}
		}
	}
	var reply *redishold.ReplyError
	partly := ", as far as was looked at"
	if failed == nil {
		partly = ""
	}
	switch {
	case count > 0:
		return Finding{
			ID: id, Severity: Warning,
			Saw:    fmt.Sprintf("%d keys look like locks that are held and have no TTL%s: %s", count, partly, strings.Join(names, ", ")),
			Why:    "If its holder dies, such a lock is never free again. A program that was killed half-way, or that lacks the right to pexpire, leaves it.",
			Remedy: "holdfast inspect NAME; if nobody holds it: holdfast force-unlock NAME",
		}
	case errors.As(failed, &reply):
		return Finding{ID: id, Severity: Unknown, Saw: "the keys cannot be looked at: " + failed.Error(), Remedy: setUser + withRules(missing(failed), "+scan", "+type", "+cluster|slots")}
	case failed != nil && !errors.Is(failed, admin.ErrIncomplete) && !errors.Is(failed, context.DeadlineExceeded):
		return Finding{ID: id, Severity: Unknown, Saw: "the keys could not be looked at: " + failed.Error()}
	}
	return Finding{ID: id, Saw: "no lock without an end" + partly}
}
