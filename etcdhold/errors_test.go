package etcdhold

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/answers/answerstest"
)

// Each answer has the meaning that docs/answers.md says, and is one that the client knows.
func TestTableOfAnswers(t *testing.T) {
	s := &store{client: clientv3.NewCtxClient(t.Context())}
	for _, r := range answerstest.Rows(t, "..", "etcd") {
		answer := rpctypes.Error(status.Error(codes.Unknown, "etcdserver: "+r.Answer))
		if !errors.As(answer, new(rpctypes.EtcdError)) {
			t.Errorf("%q is no answer of etcd", r.Answer)
		}
		got := s.errorOf(fmt.Errorf("wrapped: %w", answer))
		if meaning := answerstest.MeaningOf(got); meaning != r.Meaning {
			t.Errorf("%q: got %v, which is %s, want %s", r.Answer, got, meaning, r.Meaning)
		}
	}
	if got := s.errorOf(rpctypes.ErrTimeout); answerstest.MeaningOf(got) != answers.Unknown {
		t.Errorf("got %v, want an error whose outcome is unknown", got)
	}
}
