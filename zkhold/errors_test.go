package zkhold

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/answers/answerstest"
)

// Each code has the meaning that docs/answers.md says, whether the client has a name for it or
// not. No text has a code without a name.
func TestTableOfAnswers(t *testing.T) {
	named := map[string]error{
		"-102": zk.ErrNoAuth, "-108": zk.ErrNoChildrenForEphemerals, "-112": zk.ErrSessionExpired,
		"-114": zk.ErrInvalidACL, "-115": zk.ErrAuthFailed, "-118": zk.ErrSessionMoved,
	}
	for _, r := range answerstest.Rows(t, "..", "ZooKeeper") {
		err := fmt.Errorf("unknown error: %s", r.Answer) // as the client says it
		if named[r.Answer] != nil {
			err = fmt.Errorf("wrapped: %w", named[r.Answer])
		}
		got := errorOf(err)
		if meaning := answerstest.MeaningOf(got); meaning != r.Meaning || strings.Contains(got.Error(), "unknown") {
			t.Errorf("%s: got %v, which is %s, want %s", r.Answer, got, meaning, r.Meaning)
		}
		delete(named, r.Answer)
	}
	for code := range named {
		t.Errorf("the table has no row for %s", code)
	}
	timeout, reset := errorOf(errors.New("unknown error: -122")), errors.New("connection reset")
	if timeout.Error() != "REQUESTTIMEOUT (-122)" || errorOf(reset) != reset { //nolint:errorlint // it must be unchanged
		t.Errorf("got %v and %v, want the name of the code, and what is no code unchanged", timeout, errorOf(reset))
	}
}
