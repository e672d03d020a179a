package peer

import (
	"context"

	"github.com/redis/rueidis"
)

// voice publishes messages and listens to them over another connection.
type voice struct {
	client  rueidis.Client
	back    chan struct{} // gets a value for each message
	cancel  context.CancelFunc
	done    chan struct{} // closed when the goroutine is gone; nil before the first message
	channel string
}

func newVoice(client rueidis.Client) *voice {
	return &voice{client: client, channel: "bench:voice", back: make(chan struct{}, 1)}
}

// listen subscribes, and returns when the server has confirmed that.
func (v *voice) listen() error {
	ctx, cancel := context.WithCancel(context.Background())
	v.cancel, v.done = cancel, make(chan struct{})
	link, release := v.client.Dedicate()
	ended := link.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) { v.back <- struct{}{} }})
	err := link.Do(ctx, link.B().Subscribe().Channel(v.channel).Build()).Error()
	go func() {
		defer close(v.done)
		select {
		case <-ctx.Done():
		case <-ended:
		}
		release()
	}()
	return err
}

// echo publishes a message and waits for it.
func (v *voice) echo(ctx context.Context) error {
	if v.done == nil {
		if err := v.listen(); err != nil {
			return err
		}
	}
	if err := v.client.Do(ctx, v.client.B().Publish().Channel(v.channel).Message("0").Build()).Error(); err != nil {
		return err
	}
	select {
	case <-v.back:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *voice) close() {
	if v.done != nil {
		v.cancel()
		<-v.done
	}
}

// Unlock does nothing: a message is not held.
func (v *voice) Unlock() error { return nil }
