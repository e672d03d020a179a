package redishold

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// A renewal is made from the key alone.
func TestRenewalsNeedTheKeyOnly(t *testing.T) {
	for _, o := range []Options{{}, {KeyPrefix: "app:"}, {KeyPrefix: "{app}:"}, {Layout: Plain}, {Layout: Timestamp}} {
		b := New(&fakeConn{}, &o)
		for kind := range uint8(5) {
			c := fuzzClaim(kind, "stock:42")
			f := b.forms.of(c)
			got, want := f.Renew(kinds.Buffers{}, b.layout.LockOnly(c.Name), c), f.Renew(kinds.Buffers{}, b.layout.Keys(c.Name), c)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, kind %d: got %+v, want %+v", o, kind, got, want)
			}
		}
	}
}

// Every call of a pair fits into a callBuf.
func TestErrandsHaveRoom(t *testing.T) {
	both := []string{"PUBLISH", "SPUBLISH"}
	for _, o := range []Options{{}, {Layout: Plain}, {Layout: Timestamp}} {
		b := New(&fakeConn{}, &o)
		for kind := range uint8(5) {
			c := fuzzClaim(kind, "stock:42")
			f, k := b.forms.of(c), b.layout.Keys(c.Name)
			for _, call := range []wire.Call{f.Acquire(kinds.Buffers{}, k, c, both), f.Release(kinds.Buffers{}, k, c, both)} {
				if len(call.Keys) > len(callBuf{}.keys) || len(call.Args) > len(callBuf{}.args) {
					t.Errorf("%s: %d keys and %d arguments do not fit", call.Script.Name(), len(call.Keys), len(call.Args))
				}
			}
		}
	}
}

// Calls that lie in one buffer do not touch each other, and neither does one for which
// there is not enough.
func TestRoomsAreApart(t *testing.T) {
	m := &batchBuf{at: make([]int, 3)}
	for _, most := range []int{0, 1, 2, 3} {
		m.fill(most, most, func(buf kinds.Buffers, i int) wire.Call {
			return wire.Call{
				Keys: append(buf.Keys, fmt.Sprint("key ", i), fmt.Sprint("more ", i)),
				Args: append(buf.Args, fmt.Sprint("a ", i), fmt.Sprint("b ", i)),
			}
		})
		for i, call := range m.calls {
			_, _ = append(call.Keys, "x"), append(call.Args, "x")
			if got, want := fmt.Sprint(call.Keys, call.Args), fmt.Sprintf("[key %d more %d] [a %d b %d]", i, i, i, i); got != want {
				t.Errorf("room for %d: got %s, want %s", most, got, want)
			}
		}
	}
}
