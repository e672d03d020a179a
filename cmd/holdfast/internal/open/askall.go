package open

import "context"

// askAll puts all questions at the same time, and calls take with each answer, in the order
// in which they come. It returns when all have come: take may cancel the context of those
// that it has no use for.
func askAll[Q, A any](ctx context.Context, questions []Q, ask func(context.Context, Q) (A, error), take func(answer A, err error, cancel context.CancelFunc)) {
	type reply struct {
		answer A
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan reply, len(questions))
	for _, q := range questions {
		go func() {
			answer, err := ask(ctx, q)
			replies <- reply{answer, err}
		}()
	}
	for range questions {
		r := <-replies
		take(r.answer, r.err, cancel)
	}
}
