package store

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/await"
)

// A server that is silent costs much less than the second which the others have.
func TestSilentServerIsNotWaitedFor(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var conns []*lateConn
	for _, url := range []string{"redis://" + miniredis.RunT(t).Addr(), "redis://" + silent.Addr().String(), "redis://" + miniredis.RunT(t).Addr()} {
		c := newLateConn(open.Access{URL: url})
		defer c.close()
		conns = append(conns, c)
	}
	var said bytes.Buffer
	began := await.NewWatch(t)
	err = meet(t.Context(), "--url", conns, output.NewReporter(output.Environment{Stderr: &said}, false))
	if took := began.Took(); err != nil || took > introduction*3/4 {
		t.Errorf("got %v after %v, want nothing wrong after about %v", err, took, stragglers)
	}
	if got := said.String(); !strings.Contains(got, silent.Addr().String()+" is unreachable") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q, want a line about the silent server", got)
	}
}
