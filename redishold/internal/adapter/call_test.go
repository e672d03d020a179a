package adapter

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

func TestGuardReturnsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := Guard(ctx, func() int { time.Sleep(time.Minute); return 1 })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("got error %v after %v, want DeadlineExceeded after 1s", err, time.Since(start))
		}
		time.Sleep(time.Minute) // the call ends by itself
		if v, err := Guard(t.Context(), func() int { return 1 }); v != 1 || err != nil {
			t.Errorf("got %v, error %v, want 1", v, err)
		}
	})
}

func TestClassify(t *testing.T) {
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), time.Now())
	defer cancel()
	alive := context.Background()
	timeout := errors.New("i/o timeout")
	for _, c := range []struct {
		name   string
		ctx    context.Context
		err    error
		unsent bool
		is     []error
		isNot  []error
	}{
		{"plain", alive, io.EOF, false, []error{io.EOF}, []error{driver.ErrNotExecuted}},
		{"unsent", alive, io.EOF, true, []error{io.EOF, driver.ErrNotExecuted}, nil},
		{"unsent, ctx over", dead, io.EOF, true, []error{io.EOF, driver.ErrNotExecuted, context.Canceled}, nil},
		{"ctx over", dead, timeout, false, []error{timeout, context.Canceled}, []error{driver.ErrNotExecuted}},
		{"deadline passed", late, timeout, false, []error{timeout, context.DeadlineExceeded}, []error{driver.ErrNotExecuted}},
		{"somebody else's ctx", alive, context.Canceled, false, nil, []error{context.Canceled, driver.ErrNotExecuted}},
	} {
		got := Classify(c.ctx, c.err, c.unsent)
		for _, want := range c.is {
			if !errors.Is(got, want) {
				t.Errorf("%s: got %v, want one that is %v", c.name, got, want)
			}
		}
		for _, not := range c.isNot {
			if got == nil || errors.Is(got, not) {
				t.Errorf("%s: got %v, want one that is not %v", c.name, got, not)
			}
		}
	}
}

func TestAcknowledged(t *testing.T) {
	calls := []*redishold.Call{{}, {Replicas: 2}}
	for _, c := range []struct {
		wait redishold.Result
		want string // what the error starts with; "" for none
	}{
		{redishold.Result{Value: int64(2)}, ""},
		{redishold.Result{Value: int64(3)}, ""},
		{redishold.Result{Value: int64(1)}, "NOREPLICAS 1 of 2"},
		{redishold.Result{Err: &redishold.ReplyError{Text: "NOPERM wait"}}, "NOREPLICAS WAIT failed: NOPERM wait"},
		{redishold.Result{Err: io.EOF}, "EOF"},
		{redishold.Result{Value: "odd"}, "NOREPLICAS"},
	} {
		results := []redishold.Result{{Value: int64(1)}, {Value: int64(1)}}
		Acknowledge(calls, results, func() redishold.Result { return c.wait })
		got := results[1]
		if (got.Err == nil) != (c.want == "") || got.Err != nil && !strings.HasPrefix(got.Err.Error(), c.want) || got.Value != int64(1) {
			t.Errorf("WAIT answers %v: got %v, error %v, want %q", c.wait, got.Value, got.Err, c.want)
		}
		if results[0].Err != nil {
			t.Errorf("WAIT answers %v: got error %v of a call that asks for no replicas", c.wait, results[0].Err)
		}
	}
	failed := []redishold.Result{{}, {Err: io.EOF}}
	Acknowledge(calls, failed, func() redishold.Result { return redishold.Result{Value: int64(2)} })
	if !errors.Is(failed[1].Err, io.EOF) {
		t.Errorf("a failed script: got error %v, want its own", failed[1].Err)
	}
}

func TestWaitMillis(t *testing.T) {
	if got := WaitMillis(context.Background()); got != 1000 {
		t.Errorf("without a deadline: got %d, want 1000", got)
	}
	for left, want := range map[time.Duration]int64{
		3 * time.Second:        1000,
		600 * time.Millisecond: 400,
		300 * time.Millisecond: 180, // the reply comes up to 100 ms after that
		60 * time.Millisecond:  15,
		0:                      1, // 0 would wait forever
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			if got := WaitMillis(ctx); got != want {
				t.Errorf("%v left: got %d, want %d", left, got, want)
			}
		})
	}
}

func TestValueRefusesOtherTypes(t *testing.T) {
	for _, v := range []any{1.5, true, map[string]any{}, []any{int64(1), []any{errors.New("nested")}}} {
		if _, err := Value(v); err == nil {
			t.Errorf("%T was accepted", v)
		}
	}
}

func TestServer(t *testing.T) {
	text := "# Server\r\nredis_version:8.0.1\r\nredis_mode:cluster\r\nrun_id:abc\r\n\r\n# Memory\r\nmaxmemory_policy:allkeys-lru\r\n" +
		"# Stats\r\nevicted_keys:12\r\n# Replication\r\nrole:slave\r\nconnected_slaves:2\r\n"
	want := redishold.ServerInfo{
		Version: "8.0.1", RunID: "abc", Cluster: true, ShardedPS: true, Role: "slave", Replicas: 2,
		EvictionPolicy: "allkeys-lru", EvictedKeys: 12,
	}
	if got, err := Server(redishold.Result{Value: text}); got != want || err != nil {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
	if got, _ := Server(redishold.Result{Value: "redis_version:6.2.14\r\n"}); got.ShardedPS {
		t.Error("6.2 knows no sharded channels")
	}
	if _, err := Server(redishold.Result{Err: io.EOF}); !errors.Is(err, io.EOF) {
		t.Errorf("got error %v, want EOF", err)
	}
}
