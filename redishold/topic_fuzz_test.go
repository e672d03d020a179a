package redishold

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// FuzzMessages shows that a message is only a hint. A waiter is woken by any message or
// confirmation on its channel, perhaps without need, and by nothing else. The message that the
// lock is taken cancels the messages before it.
func FuzzMessages(f *testing.F) {
	f.Add("orders", "0", []byte{0, 1, 2, 3})
	f.Add("{a}\x00", "\xff\x00", []byte{1, 1, 0, 3, 2, 2})
	f.Add("a", "-1", []byte{4, 0, 3, 1, 5, 0})
	f.Add("a", "5:7:somebody", []byte{0, 4, 0, 5})
	f.Add("b", "9999999999999999999999", []byte{2, 3, 0, 0, 0, 4})
	f.Add("a", takenMessage, []byte{1, 0, 4, 0, 2, 4})
	slots := slotTable()
	f.Fuzz(func(t *testing.T, name, payload string, steps []byte) {
		if name == "" || len(steps) > 64 {
			return
		}
		synctest.Test(t, func(t *testing.T) { hear(t, slots, name, payload, steps) })
	})
}

func hear(t *testing.T, slots *fuzzSlots, name, payload string, steps []byte) {
	conn := &fakeConn{late: len(steps)%2 == 1}
	conn.server = func(context.Context) (ServerInfo, error) {
		return ServerInfo{Cluster: len(steps)%3 == 0, ShardedPS: true}, nil
	}
	b := slots.newBackend(conn, &Options{})
	w := b.Waiter(testClaim(name))
	defer w.Close()
	topic := topicOf(b, testClaim(name))
	own := listen(t, conn, w)
	stranger := b.Waiter(testClaim(name + "2"))
	defer stranger.Close()
	others := listen(t, conn, stranger)

	ahead, received := b.topics.Version(topic), 0
	for i, step := range steps {
		sub := own[int(step)/8%len(own)]
		switch step % 8 {
		case 0:
			sub.notify(Notice{Payload: payload})
			if received++; payload == takenMessage {
				received = 0 // after the messages before it no try is needed
			}
		case 1:
			sub.notify(Notice{Subscribed: true})
			received++
		case 2:
			sub.notify(Notice{})
			received++
		case 3: // of another name
			others[0].notify(Notice{Payload: payload})
		default:
			wakes(t, i, w, ahead, received > 0)
			ahead, received = b.topics.Version(topic), 0
		}
	}
	wakes(t, len(steps), w, ahead, received > 0)
}

// listen waits until w is subscribed and has received late confirmations. It returns the
// subscriptions of w.
func listen(t *testing.T, conn *fakeConn, w driver.Waiter) []*fakeSub {
	t.Helper()
	before := len(conn.subscriptions())
	if err := waitFor(w, 0); err != nil {
		t.Fatalf("the first Wait: got %v, want nil: listening has begun", err)
	}
	own := conn.subscriptions()[before:]
	if conn.late {
		for _, s := range own {
			s.notify(Notice{Subscribed: true}) // the first confirmation, which must not wake a waiter
		}
	}
	return own
}

// waitFor waits for a minute of the bubble's clock.
func waitFor(w driver.Waiter, ahead uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := w.Wait(ctx, driver.Outcome{Ahead: ahead})
	return err
}

// wakes fails unless a Wait after the version ahead returns if notified, and sleeps
// if not.
func wakes(t *testing.T, step int, w driver.Waiter, ahead uint64, received bool) {
	t.Helper()
	if err := waitFor(w, ahead); (err == nil) != received {
		t.Fatalf("step %d, received %v: Wait returned %v", step, received, err)
	}
}
