package open

import "context"

// askAll asks all questions at the same time, and calls take with each answer in the order of
// arrival. It returns when it has all answers. If take needs no more answers, it may call
// cancel, which ends the context of the other questions.
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
