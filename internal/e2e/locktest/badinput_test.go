package locktest

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// Whatever is wrong is said at once, in words that help, and nothing is written.
func TestBadInput(t *testing.T) {
	version := regexp.MustCompile(`redis_version:\d`)
	tests := []struct {
		name           string
		user, password string
		prepare        func(s *subject)
		lock           string
		opts           *holdfast.Options
		opt            []holdfast.Option
		is             error
		want           string
	}{
		{name: "empty name", password: "secret", want: "name of the lock is empty"},
		{name: "negative TTL", password: "secret", lock: "a", opts: &holdfast.Options{TTL: -time.Second}, want: "negative"},
		{name: "tiny TTL", password: "secret", lock: "a", opts: &holdfast.Options{TTL: time.Millisecond}, want: "too short"},
		{name: "tiny lease", password: "secret", lock: "a", opt: []holdfast.Option{holdfast.FixedLease(time.Millisecond)}, want: "too short"},
		{name: "wrong password", password: "guess", lock: "a", is: driver.ErrRefused, want: "WRONGPASS"},
		{name: "no password", lock: "a", is: driver.ErrRefused, want: "NOAUTH"},
		{name: "missing right", user: "app", password: "app", lock: "a", is: driver.ErrRefused, want: "+hset", prepare: func(s *subject) {
			s.server.Do("ACL", "SETUSER", "app", "on", ">app", "~*", "&*", "+@all", "-hset")
		}},
		{name: "missing key pattern", user: "app", password: "app", lock: "a", is: driver.ErrRefused, want: "~a", prepare: func(s *subject) {
			s.server.Do("ACL", "SETUSER", "app", "on", ">app", "~holdfast:*", "&*", "+@all")
		}},
		{name: "missing channel", user: "app", password: "app", lock: "a", is: driver.ErrRefused, want: "&redisson_lock__channel:*", prepare: func(s *subject) {
			s.server.Do("ACL", "SETUSER", "app", "on", ">app", "~*", "resetchannels", "+@all")
		}},
		{name: "old server", password: "secret", lock: "a", is: driver.ErrRefused, want: "is too old: holdfast needs 6.2", prepare: func(s *subject) {
			s.proxy.On(faultproxy.Command("INFO"), faultproxy.Rewrite(func(reply string) string {
				return version.ReplaceAllString(reply, "redis_version:5") // of the same length
			}), faultproxy.Always())
		}},
		{name: "data in the place of a lock", password: "secret", lock: "data", is: holdfast.ErrMismatch, want: `"data"`, prepare: func(s *subject) {
			s.server.Do("SET", "data", "x", "PX", "60000")
		}},
		{name: "another kind of lock", password: "secret", lock: "rw", is: holdfast.ErrMismatch, want: "another kind", prepare: func(s *subject) {
			s.server.Do("HSET", "rw", "mode", "read", "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11:57", "1")
			s.server.Do("PEXPIRE", "rw", "60000")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				if tt.prepare != nil {
					tt.prepare(s)
				}
				before := s.server.Keys()
				start := time.Now()
				err := s.lockAs(tt.user, tt.password, tt.lock, tt.opts, tt.opt)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					s.Errorf("got %v, want an error with %q", err, tt.want)
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					s.Errorf("got %v, want it to be %v", err, tt.is)
				}
				for _, secret := range []string{"secret", "guess", ">app", ":app@"} {
					if err != nil && strings.Contains(err.Error(), secret) {
						s.Errorf("%q gives a password away", err)
					}
				}
				within(s, "time to the error", time.Since(start), time.Second)
				if after := s.server.Keys(); len(after) > len(before) {
					if tt.is == nil || !errors.Is(tt.is, holdfast.ErrMismatch) { // then the client has registered
						s.Errorf("written: %q, before: %q", after, before)
					}
				}
				s.server.Do("DEL", "data", "rw")
			}, redistest.Password("secret"))
		})
	}
}

// lockAs connects and locks, and returns the first error of either.
func (s *subject) lockAs(user, password, name string, opts *holdfast.Options, opt []holdfast.Option) error {
	conn, shut, err := dial.Server(s.adapter, s.proxy.Addr(), user, password)
	if err != nil {
		if !errors.Is(err, driver.ErrRefused) && isReply(err) {
			err = errors.Join(err, driver.ErrRefused) // Open says it before the engine can
		}
		return err
	}
	defer shut()
	_, err = holdfast.New(redishold.New(conn, nil), opts).Lock(s.Context(), name, opt...)
	return err
}

func isReply(err error) bool {
	var reply *redishold.ReplyError
	return errors.As(err, &reply)
}

func TestUnknownURLParameter(t *testing.T) {
	for url, want := range map[string]string{
		"redis://127.0.0.1:1?tls=1":           `"tls"`,
		"redis://user:secret@127.0.0.1:1?x=y": `"x"`,
		"http://127.0.0.1:1":                  "http",
	} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := rueidisconn.Open(ctx, url, nil)
		cancel()
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error that names %s and no password", url, err, want)
		}
	}
}

// A connection that is refused is no reason to give up for Lock, and one at once
// for TryLock.
func TestRefusedConnection(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		l := s.locker(nil)
		s.warm(l)
		s.proxy.RefuseNew()
		s.proxy.CutAll()
		start := time.Now()
		if _, err := l.TryLock(s.Context(), "a"); err == nil || errors.Is(err, holdfast.ErrBusy) {
			s.Errorf("TryLock: got %v, want the connection's error", err)
		}
		within(s, "TryLock", time.Since(start), 2*time.Second)
		time.AfterFunc(500*time.Millisecond, func() {
			if err := s.proxy.Accept(); err != nil {
				s.Error(err)
			}
		})
		start = time.Now()
		must.Unlock(s, must.Lock(s, l, "a"))
		within(s, "Lock", time.Since(start), 2*time.Second)
		gone(s, s.server.Admin, time.Second)
	})
}
