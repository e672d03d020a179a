package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/uuid"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// askLimit is how long Examine waits for the answer of one server.
const askLimit = 3 * time.Second

// examined has the reports of servers about themselves, and the findings about these reports.
// The servers are not Redis. If a server does not report a value, the finding about that value
// has the severity doctor.Unknown.
type examined struct {
	deployment string // "standalone", "ensemble" and the like
	servers    []doctor.Server
	findings   []doctor.Finding
}

// add records a server and the findings about it.
func (e *examined) add(s doctor.Server, findings ...doctor.Finding) {
	e.servers = append(e.servers, s)
	for _, finding := range findings {
		finding.Servers = []string{s.Address}
		e.findings = append(e.findings, finding)
	}
}

// Examine asks the servers, takes a test lock, and returns the report about what endangers
// the locks. The caller sets the TTL, the Margin, the Name and the Keys in `how`. The parameter
// `accepted` is the largest token that a resource has accepted, or 0 if that is not known: then
// the report also says whether the next holder has a larger one. Examine returns an error if no
// server could be asked, or if ctx was cancelled.
func (s *Store) Examine(ctx context.Context, how doctor.Options, accepted uint64) (*doctor.Report, error) {
	report, err := s.report(ctx, how)
	if err != nil || accepted == 0 {
		return report, err
	}
	findings := append(report.Findings, nextToken(ctx, s.Backend, &how, accepted))
	return doctor.NewReport(report.Deployment, how.TTL, report.Servers, findings), nil
}

// report is Examine without the check of tokens.
func (s *Store) report(ctx context.Context, how doctor.Options) (*doctor.Report, error) {
	if s.Redis != nil {
		return s.redis.examine(ctx, s.Redis, how)
	}
	all, err := s.examine(ctx, how.TTL)
	if err != nil {
		return nil, err
	}
	findings := append(all.findings, fencing(s.Backend.Info().Caps.Fencing))
	findings = append(findings, tryOut(ctx, s.Backend, &how)...)
	if err := ctx.Err(); errors.Is(err, context.Canceled) { // after a timeout, the report has the findings so far
		return nil, err
	}
	return doctor.NewReport(all.deployment, how.TTL, all.servers, findings), nil
}

// fencing judges whether the store gives locks fencing tokens.
func fencing(tokens bool) doctor.Finding {
	const id = "fencing"
	if tokens {
		return saw(id, doctor.OK, "each lock gets a fencing token")
	}
	return because(saw(id, doctor.Note, "locks get no fencing tokens: the table has no room for fencing tokens"),
		"a holder that was paused may write after another client got its lock", "use layout=lease if no Java program shares the locks; otherwise check each write in another way, for example with a version column")
}

// saw returns a finding with a text of what was found. For a finding that is not in order, the
// function `because` sets the other fields.
func saw(id string, s doctor.Severity, format string, args ...any) doctor.Finding {
	return doctor.Finding{ID: id, Severity: s, Saw: fmt.Sprintf(format, args...)}
}

// because sets the fields Why and Remedy of a finding, unless the finding is in order.
func because(f doctor.Finding, why, remedy string) doctor.Finding {
	if f.Severity > doctor.OK {
		f.Why, f.Remedy = why, remedy
	}
	return f
}

// reached returns the severity `more` if `value` is at least `high`. If not, it returns the
// severity `less` if `value` is at least `low`, else doctor.OK.
func reached[V cmp.Ordered](value, low V, less doctor.Severity, high V, more doctor.Severity) doctor.Severity {
	switch {
	case value >= high:
		return more
	case value >= low:
		return less
	}
	return doctor.OK
}

// worse returns s if `bad` is true, else doctor.OK.
func worse(bad bool, s doctor.Severity) doctor.Severity {
	if bad {
		return s
	}
	return doctor.OK
}

// connections judges how many of the connections that a database allows are in use.
func connections(now, most int, remedy string) doctor.Finding {
	full := float64(now) / float64(max(most, 1))
	return because(saw("connections", reached(full, 0.8, doctor.Warning, 0.95, doctor.Danger), "%d of %d connections are in use", now, most),
		"if no connection is free, a client that must connect again cannot renew its locks", remedy)
}

// noAnswer returns the finding of a server that does not answer, or refuses to answer.
func noAnswer(err error) doctor.Finding {
	if meaning(err) == answers.Denied {
		return because(saw("answers", doctor.Warning, "the server refuses this user: %v", err),
			"doctor cannot check this server", "check the user and the password, or grant the permission")
	}
	return because(saw("answers", doctor.Warning, "the server does not answer: %v", err),
		"if one more server fails, the other servers may be no majority", "start the server, open the network between this machine and the server, or remove it from the URL")
}

const (
	clockTrips = 5           // how often the clock is read
	clockOff   = time.Second // a difference of this or more is a warning, as for Redis
)

// clock judges by how much the clock of a server is ahead of the clock of this machine. It
// uses the quickest of clockTrips round trips. The server read its clock at some time between
// the request and the answer, so the error is at most half of the trip.
func clock(ctx context.Context, read func(context.Context) (time.Time, error)) doctor.Finding {
	const id = "clock"
	var ahead, bound time.Duration
	for n := range clockTrips {
		start := time.Now()
		theirs, err := read(ctx)
		if err != nil {
			return saw(id, doctor.Unknown, "the server does not report its time: %v", err)
		}
		if half := time.Since(start) / 2; n == 0 || half < bound {
			// Round(0) removes the monotonic time from ours, so Sub compares the wall clocks.
			ahead, bound = theirs.Sub(start.Add(half).Round(0)), half
		}
	}
	direction := "ahead of the clock of this machine"
	if ahead < 0 {
		direction = "behind the clock of this machine"
	}
	by := ahead.Abs()
	f := saw(id, worse(by-bound >= clockOff, doctor.Warning), "the clock of the server is %v %s (error at most %v)",
		by.Round(time.Millisecond), direction, bound.Round(time.Microsecond))
	return because(f, "the server measures leases with its own clock; if a wrong clock is suddenly corrected, leases end too early or too late",
		"run chrony or another NTP client on the server and on this machine")
}

const (
	scratchTTL = 10 * time.Second // the lease, which ends the scratch lock if it cannot be released
	tryLimit   = 10 * time.Second // for the grant of the scratch lock and all its renewals
	giveBack   = 2 * time.Second  // for the release of the scratch lock
	renewals   = 10
)

// tryOut takes a scratch lock, renews it a few times, and releases it. It reports the time of
// the slowest renewal. A failed renewal counts, too, if a renewal before it succeeded.
func tryOut(ctx context.Context, b driver.Backend, o *doctor.Options) []doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	c := scratch(b, o)
	out, err := b.Try(ctx, c)
	if errors.Is(err, driver.ErrNotExecuted) {
		return []doctor.Finding{notHad(err)}
	}
	c.Indeterminate = err != nil
	defer release(ctx, b, c)
	switch {
	case err != nil:
		return []doctor.Finding{notHad(err)}
	case !out.Granted:
		return []doctor.Finding{saw("locks", doctor.Unknown, "the doctor tried no lock: another client, maybe another doctor, holds %q", c.Name)}
	}
	var slowest time.Duration
	for n := 0; err == nil && n < renewals; n++ {
		began := time.Now()
		if err = renew(ctx, b, c); err != nil && n == 0 {
			return []doctor.Finding{notHad(err)}
		}
		slowest = max(slowest, time.Since(began))
	}
	return []doctor.Finding{saw("locks", doctor.OK, "a test lock works"), latency(slowest, o)}
}

// scratch returns a claim for a scratch lock.
func scratch(b driver.Backend, o *doctor.Options) driver.Claim {
	client := uuid.New()
	ttl := cmp.Or(b.Info().SessionTTL, max(scratchTTL, b.Info().MinTTL))
	return driver.Claim{
		Name: o.Name + "holdfast-doctor", Client: client, Seq: 1, Owner: client + ":1",
		TTL: ttl, Count: 1, Tokens: 1, NoQueue: true, Note: "holdfast doctor",
	}
}

// release releases a scratch lock, even if ctx has ended. If that fails, its lease ends it.
func release(ctx context.Context, b driver.Backend, c driver.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBack)
	defer cancel()
	_ = b.Release(ctx, c)
}

// nextToken takes a scratch lock, and compares its token with the largest one that a resource has
// accepted. After a store was restored, the tokens of new holders may be smaller, and then the
// resource refuses all of them.
func nextToken(ctx context.Context, b driver.Backend, o *doctor.Options, accepted uint64) doctor.Finding {
	const id = "tokens"
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	c := scratch(b, o)
	out, err := b.Try(ctx, c)
	c.Indeterminate = err != nil
	defer release(ctx, b, c)
	switch {
	case err != nil || !out.Granted:
		return saw(id, doctor.Unknown, "the doctor got no token to compare with %d", accepted)
	case out.Token == 0:
		return saw(id, doctor.Danger, "locks of this store have no tokens, so it cannot have given the token %d", accepted)
	case out.Token > accepted:
		return saw(id, doctor.OK, "a new token is larger than %d", accepted)
	case b.Info().SessionTTL > 0: // tokens are the numbers of the writes to the store
		return because(saw(id, doctor.Danger, "a new token is %d, and the resource has accepted %d: the store has lost data", out.Token, accepted),
			"the resource refuses every new holder", "restore etcd with: etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted; otherwise delete the token that the resource keeps, when no old holder runs any more")
	}
	return because(saw(id, doctor.Warning, "a new token is %d if the store has forgotten the name, and the resource has accepted %d: the clock of the server is behind", out.Token, accepted),
		"the resource refuses the next holder of a name that the store has forgotten", "set the clock of the server")
}

func renew(ctx context.Context, b driver.Backend, c driver.Claim) error {
	answers, err := b.Renew(ctx, []driver.Claim{c})
	if err != nil {
		return err
	}
	return answers[0].Err
}

func notHad(err error) doctor.Finding {
	f := because(saw("locks", doctor.Danger, "the test lock does not work: %v", err),
		"programs that use this store cannot lock", "correct what the message names; the page of the store in docs lists the permissions that a user needs")
	if errors.Is(err, rows.ErrNoTable) {
		f.Remedy = "create the table, or let holdfast create it: add create=true to the parameters of the URL, once"
	}
	return f
}

// latency compares the slowest renewal with the margin, as doctor does for Redis.
func latency(slowest time.Duration, o *doctor.Options) doctor.Finding {
	severity := reached(slowest, o.Margin/3, doctor.Note, o.Margin, doctor.Warning)
	return because(saw("latency", severity, "the slowest of %d renewals took %v", renewals, slowest.Round(time.Microsecond)),
		"if a renewal is too late, a lock that is held counts as lost", "use a longer lease, or a server that is nearer")
}
