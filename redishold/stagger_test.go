package redishold

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
)

// listening returns a Backend that is subscribed to the channel of "orders", its Waiter, and
// a function that delivers a message on the channel.
func listening(t *testing.T, conn *fakeConn) (*Backend, driver.Waiter, func(payload string)) {
	t.Helper()
	b := New(conn, nil)
	w := b.Waiter(testClaim("orders"))
	wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "before any subscription")
	return b, w, func(payload string) { conn.subscriptions()[0].notify(Notice{Payload: payload}) }
}

// A waiter does not try if the lock was taken again after the release.
func TestTakenMessageIsNoRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w, hear := listening(t, &fakeConn{answer: replying("acquire", busyReply())})
		defer w.Close()
		last := busyTry(t, b)
		waiting := begin(t.Context(), w, last)
		hear(takenMessage)
		wantWaiting(t, waiting, "after a taken message")
		hear("0")
		wantReturned(t, waiting, "after a release")

		last = busyTry(t, b)
		hear("0")
		hear(takenMessage)
		waiting = begin(t.Context(), w, last)
		wantWaiting(t, waiting, "after a release of which somebody else has made use")
		hear("0")
		wantReturned(t, waiting, "after another release")
	})
}

// A process that held the lock lately tries after the others, one step later for each of
// them.
func TestStagger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: replying("acquire", busyReply())}
		b, w, hear := listening(t, conn)
		defer w.Close()
		topic := topicOf(b, testClaim("orders"))
		b.topics.Granted(topic)
		b.topics.SetOthers(topic, 3)
		for _, want := range []time.Duration{3 * staggerStep, 2 * staggerStep, staggerStep, 0, 0} {
			last := busyTry(t, b)
			waiting := begin(t.Context(), w, last)
			start := time.Now()
			hear("0")
			if err := <-waiting; err != nil || time.Since(start) != want {
				t.Fatalf("asks after %v (error %v), want %v", time.Since(start), err, want)
			}
		}

		b.topics.Granted(topic)
		waiting := begin(t.Context(), w, busyTry(t, b))
		hear("0")
		wantWaiting(t, waiting, "for its turn")
		hear(takenMessage)
		time.Sleep(time.Second)
		wantWaiting(t, waiting, "when somebody else was faster")

		b.topics.SetOthers(topic, 1000)
		start := time.Now()
		hear("0")
		if err := <-waiting; err != nil || time.Since(start) != staggerMax {
			t.Errorf("of a thousand: asks after %v (error %v), want at most %v", time.Since(start), err, staggerMax)
		}
	})
}

// A client that takes the lock again and again counts the releases of the others also while it has
// no Waiter, and then knows its turn at once. One that comes back for the first time does not listen
// meanwhile.
func TestTurnAfterAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: replying("acquire", busyReply())}
		b, first, _ := listening(t, conn)
		first.Close()
		if n := conn.subscriptions()[0].closes(); n != 1 {
			t.Fatalf("the first subscription was closed %d times, want once", n)
		}
		time.Sleep(lingerFor / 2)
		w := b.Waiter(testClaim("orders"))
		wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "before its subscription")
		second := conn.subscriptions()[1]
		topic := topicOf(b, testClaim("orders"))
		b.topics.Granted(topic)
		b.topics.SetOthers(topic, 2)
		w.Close()
		second.notify(Notice{Payload: "0"}) // of this client
		for i, want := range []bool{false, false, true} {
			again := b.Waiter(testClaim("orders"))
			start := time.Now()
			out, err := again.Wait(t.Context(), driver.Outcome{})
			if took := time.Since(start); err != nil || out.Turn != want || (took == 0) != want {
				t.Errorf("after %d releases of others: got %+v after %v (error %v), want a turn: %v", i, out, took, err, want)
			}
			again.Close()
			second.notify(Notice{Payload: takenMessage})
			second.notify(Notice{Payload: "0"}) // of another client
		}
		if n := len(conn.subscriptions()); n != 2 || second.closes() != 0 {
			t.Errorf("got %d subscriptions, want 2 of which the second lasts", n)
		}
		time.Sleep(lingerFor)
		synctest.Wait()
		if n := second.closes(); n != 1 {
			t.Errorf("closed %d times after %v, want once", n, lingerFor)
		}
		time.Sleep(rememberFor)
		last := b.Waiter(testClaim("orders"))
		wantReturned(t, begin(t.Context(), last, driver.Outcome{}), "before its subscription")
		last.Close()
		if n := conn.subscriptions()[2].closes(); n != 1 {
			t.Errorf("the subscription of a client that stayed away was closed %d times, want once", n)
		}
	})
}

// A client whose last hold was brief does not publish to a single other client that it has the
// lock, also if it has not listened in between. After a longer hold, and to several clients, it
// does.
func TestBriefHoldIsNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: func(call Call) Result {
			if call.Script.Name() == "release" {
				return Result{Value: int64(1 + 2)}
			}
			return replying("acquire", int64(7))(call)
		}}
		b := New(conn, nil)
		claim := testClaim("orders")
		for i, turn := range []struct {
			announced bool          // the grant of this turn
			hold      time.Duration // after it
			others    int           // how many clients receive its release
		}{
			{true, 0, 1},
			{false, briefHold, 1},
			{true, briefHold - 1, 2},
			{true, 0, 1},
			{false, time.Minute, 1},
			{true, 0, 1},
		} {
			w := b.Waiter(claim)
			if err := <-begin(t.Context(), w, driver.Outcome{}); err != nil { // subscribed, and perhaps its turn
				t.Fatal(err)
			}
			if _, err := b.Try(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			if got := len(argsOfLast(t, conn, "acquire")) > 4; got != turn.announced {
				t.Errorf("turn %d: announced %v, want %v", i, got, turn.announced)
			}
			w.Close()
			time.Sleep(turn.hold)
			if _, err := b.StartRelease(t.Context(), claim)(); err != nil {
				t.Fatal(err)
			}
			b.topics.SetOthers(topicOf(b, claim), turn.others)
		}
	})
}

// argsOfLast returns the arguments of the last call of a script.
func argsOfLast(t *testing.T, conn *fakeConn, script string) []string {
	t.Helper()
	conn.mu.Lock()
	defer conn.mu.Unlock()
	for _, calls := range slices.Backward(conn.sent) {
		if calls[0].Script.Name() == script {
			return calls[0].Args
		}
	}
	t.Fatalf("%s was not called", script)
	return nil
}

// Two Lockers of one Backend wait as those of two processes do: each counts the releases since its
// own last hold, and each has a subscription, which ends with its last Waiter.
func TestTwoLockersStagger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: replying("acquire", busyReply())}
		b := New(conn, nil)
		claims := []driver.Claim{testClaim("orders"), claimOf(testClaim("orders"), testUUID[:35]+"2", 1)}
		var waiters []driver.Waiter
		for _, c := range claims {
			waiters = append(waiters, listenFor(t, b, c))
			b.topics.SetOthers(topicOf(b, c), 1)
		}
		b.topics.Granted(topicOf(b, claims[0]))
		start := time.Now()
		for _, s := range conn.subscriptions() {
			s.notify(Notice{Payload: "0"}) // a release of the first Locker
		}
		for _, i := range []int{1, 0} {
			want := time.Duration(1-i) * staggerStep
			if err := <-begin(t.Context(), waiters[i], driver.Outcome{}); err != nil || time.Since(start) != want {
				t.Errorf("Locker %d asks after %v (error %v), want %v", i, time.Since(start), err, want)
			}
		}
		waiters[0].Close()
		if subs := conn.subscriptions(); len(subs) != 2 || subs[0].closes() != 1 || subs[1].closes() != 0 {
			t.Errorf("got %d subscriptions, want 2, of which only the first is closed", len(subs))
		}
		waiters[1].Close()
		for i, c := range claims {
			if got := b.topics.State(topicOf(b, c)); got != waiting.Idle {
				t.Errorf("Locker %d: the topic is in state %d after its last waiter, want Idle", i, got)
			}
		}
	})
}

// A process that waits again after a moment still knows the number of other waiting
// processes, and that it has just held the lock.
func TestOthersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: func(call Call) Result {
			if call.Script.Name() == "release" {
				return Result{Value: int64(1 + 2)}
			}
			return replying("acquire", busyReply())(call)
		}}
		b := New(conn, nil)
		claim := testClaim("orders")
		busyTry(t, b)
		if others, err := b.StartRelease(t.Context(), claim)(); others != 2 || err != nil {
			t.Fatalf("got %d others and error %v, want 2", others, err)
		}
		for i, want := range []time.Duration{staggerStep, staggerStep, 0} { // the last one after a long time
			if i == 2 {
				time.Sleep(2 * rememberFor)
			}
			w := b.Waiter(claim)
			before := len(conn.subscriptions())
			begin(t.Context(), w, driver.Outcome{})
			synctest.Wait()
			waiting := begin(t.Context(), w, busyTry(t, b))
			start := time.Now()
			conn.subscriptions()[before].notify(Notice{Payload: "0"})
			if err := <-waiting; err != nil || time.Since(start) != want {
				t.Errorf("asks after %v (error %v), want %v", time.Since(start), err, want)
			}
			w.Close()
		}
	})
}

// Only a client with waiters of its own publishes that the lock is taken: then other clients
// may wait, too.
func TestTakenIsPublished(t *testing.T) {
	for _, c := range []struct {
		name    string
		server  ServerInfo
		listens bool
		want    []string // the arguments that follow those of every acquire
	}{
		{"alone", ServerInfo{}, false, nil},
		{"among others", ServerInfo{}, true, []string{"redisson_lock__channel:{orders}", "PUBLISH"}},
		{"in a cluster", ServerInfo{Cluster: true}, true, []string{"redisson_lock__channel:{orders}", "PUBLISH"}},
		{
			"in a cluster, where the messages of two channels may overtake each other",
			ServerInfo{Cluster: true, ShardedPS: true},
			true,
			[]string{"redisson_lock__channel:{orders}", "SPUBLISH"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &fakeConn{answer: replying("acquire", busyReply())}
				conn.server = func(context.Context) (ServerInfo, error) { return c.server, nil }
				b := New(conn, nil)
				w := b.Waiter(testClaim("orders"))
				defer w.Close()
				if c.listens {
					wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "before any subscription")
				}
				busyTry(t, b)
				if got := argsOfLast(t, conn, "acquire")[4:]; !slices.Equal(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// The message that means "taken" for a lock is a number of free permits on the channel of a
// semaphore.
func TestTakenMessageOfASemaphoreIsARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: replying("semaphore_acquire", busyReply())}
		b := New(conn, nil)
		c := testClaim("pool")
		c.Mode, c.Permits = driver.Permit, 2
		w := b.Waiter(c)
		defer w.Close()
		wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "before any subscription")
		last, err := b.Try(t.Context(), c)
		if err != nil || last.Granted {
			t.Fatalf("Try: got %+v and error %v, want busy", last, err)
		}
		waiting := begin(t.Context(), w, last)
		wantWaiting(t, waiting, "with a fresh outcome")
		conn.subscriptions()[0].notify(Notice{Payload: takenMessage})
		wantReturned(t, waiting, "after two permits have come back")
	})
}

// In a cluster each release comes on two channels. It counts once, in any order of the two
// messages, and still wakes if one of them is lost.
func TestReleaseOnTwoChannels(t *testing.T) {
	const late = 50 * time.Millisecond
	for _, c := range []struct {
		name  string
		heard []string // "0" on the sharded channel, "00" on the classic one; "" is a pause
		tries []time.Duration
		count int
	}{
		{"sharded first", []string{"0", "00"}, []time.Duration{0}, 1},
		{"classic first", []string{"00", "0"}, []time.Duration{0}, 1},
		{"sharded only", []string{"0"}, []time.Duration{0}, 1},
		{"classic only", []string{"00"}, []time.Duration{staggerMax}, 0},
		{"classic much later", []string{"0", "", "00"}, []time.Duration{0}, 1},
		{"two of them", []string{"0", "00", "", "", "", "00", "0"}, []time.Duration{0, 3 * late}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &fakeConn{answer: replying("acquire", busyReply())}
				conn.server = func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: true, ShardedPS: true}, nil }
				b, w, _ := listening(t, conn)
				defer w.Close()
				start := time.Now()
				var tries []time.Duration
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				last := busyTry(t, b)
				go func() {
					for _, payload := range c.heard {
						if payload == "" {
							time.Sleep(late)
							continue
						}
						for _, sub := range conn.subscriptions() {
							if sub.channel.Sharded == (payload == "0") {
								sub.notify(Notice{Payload: payload})
							}
						}
					}
				}()
				for {
					if _, err := w.Wait(ctx, last); err != nil {
						break
					}
					tries = append(tries, time.Since(start))
					last = busyTry(t, b)
				}
				if !slices.Equal(tries, c.tries) {
					t.Errorf("asks after %v, want after %v", tries, c.tries)
				}
				b.topics.SetOthers(topicOf(b, testClaim("orders")), 10)
				waiting := begin(t.Context(), w, busyTry(t, b))
				conn.subscriptions()[1].notify(Notice{Payload: "0"})
				start = time.Now()
				if err := <-waiting; err != nil {
					t.Fatal(err)
				}
				if got := 9 - int(time.Since(start)/staggerStep); got != c.count {
					t.Errorf("counts %d releases, want %d", got, c.count)
				}
			})
		})
	}
}

// For a client that is only subscribed to the classic channel, each message there is a
// release.
func TestReleaseOnTheClassicChannelOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w, hear := listening(t, &fakeConn{answer: replying("acquire", busyReply())})
		defer w.Close()
		waiting := begin(t.Context(), w, busyTry(t, b))
		start := time.Now()
		hear(repeatedMessage)
		if err := <-waiting; err != nil || time.Since(start) != 0 {
			t.Errorf("asks after %v (error %v), want at once", time.Since(start), err)
		}
	})
}
