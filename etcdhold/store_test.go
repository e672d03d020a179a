package etcdhold

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// fakeKV is a KV whose calls the functions `txn` and `del` answer.
type fakeKV struct {
	clientv3.KV
	txn func(ctx context.Context, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error)
	del func(ctx context.Context) (*clientv3.DeleteResponse, error)
}

func (f *fakeKV) Txn(ctx context.Context) clientv3.Txn { return &fakeTxn{kv: f, ctx: ctx} }

func (f *fakeKV) Delete(ctx context.Context, _ string, _ ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return f.del(ctx)
}

type fakeTxn struct {
	kv              *fakeKV
	ctx             context.Context
	then, otherwise []clientv3.Op
}

func (t *fakeTxn) If(...clientv3.Cmp) clientv3.Txn { return t }

func (t *fakeTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.then = ops
	return t
}

func (t *fakeTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.otherwise = ops
	return t
}

func (t *fakeTxn) Commit() (*clientv3.TxnResponse, error) {
	return t.kv.txn(t.ctx, t.then, t.otherwise)
}

const testLease = 7

// storeOver returns a store with the lease testLease.
func storeOver(kv clientv3.KV) *store {
	client := clientv3.NewCtxClient(context.Background())
	client.KV = kv
	s := &store{client: client}
	s.keys.reset(testLease)
	return s
}

// A transaction that puts the key reads the queue before that, so its answer does not have the
// new entry. Enqueue returns this entry all the same, and it is equal to what a later reading
// returns.
func TestEnqueueReadsTheOthers(t *testing.T) {
	other := &mvccpb.KeyValue{Key: []byte("job/1f"), CreateRevision: 5, Version: 1, Lease: 31}
	for _, others := range [][]*mvccpb.KeyValue{nil, {other}} {
		const revision = 12
		own := &mvccpb.KeyValue{CreateRevision: revision, Version: 1, Lease: testLease}
		s := storeOver(&fakeKV{txn: func(_ context.Context, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
			if len(then) != 2 || !then[0].IsGet() || !then[1].IsPut() || len(otherwise) != 1 || !otherwise[0].IsGet() {
				t.Errorf("got %d and %d operations, want a reading and a put, else a reading", len(then), len(otherwise))
			}
			own.Key, own.Value = then[1].KeyBytes(), then[1].ValueBytes()
			return &clientv3.TxnResponse{Succeeded: true, Header: &etcdserverpb.ResponseHeader{Revision: revision}, Responses: []*etcdserverpb.ResponseOp{
				{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: &etcdserverpb.RangeResponse{Kvs: others}}},
				{Response: &etcdserverpb.ResponseOp_ResponsePut{ResponsePut: &etcdserverpb.PutResponse{}}},
			}}, nil
		}})
		const note = "a note\nclient 1"
		m := ordered.Label{Kind: ordered.Mutex, ID: ordered.ClaimOf(note)}
		got, err := s.Enqueue(t.Context(), testLease, "job", m, note, false)
		want, failed := parseQueue(append(others[:len(others):len(others)], own), "job")
		if err != nil || failed != nil || !slices.Equal(got, want) {
			t.Errorf("behind %d others: got %+v, %v, want %+v, %v", len(others), got, err, want, failed)
		}
	}
}

// The calls of a lock end at their deadline, although the client does not see the deadline.
func TestCallsEndAtTheirDeadline(t *testing.T) {
	silent := func(ctx context.Context) error {
		if at, ok := ctx.Deadline(); ok {
			t.Errorf("got the deadline %v, want none", at)
		}
		<-ctx.Done()
		return ctx.Err()
	}
	s := storeOver(&fakeKV{
		txn: func(ctx context.Context, _, _ []clientv3.Op) (*clientv3.TxnResponse, error) { return nil, silent(ctx) },
		del: func(ctx context.Context) (*clientv3.DeleteResponse, error) { return nil, silent(ctx) },
	})
	m := ordered.Label{Kind: ordered.Mutex, ID: ordered.ClaimOf("\nclient 1")}
	for what, call := range map[string]func(context.Context) error{
		"Enqueue": func(ctx context.Context) error {
			_, err := s.Enqueue(ctx, testLease, "job", m, "", false)
			return err
		},
		"Remove": func(ctx context.Context) error {
			_, err := s.Remove(ctx, testLease, "job", m)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
				t.Errorf("%s: got %v after %v, want %v after 1s", what, err, time.Since(began), context.DeadlineExceeded)
			}
		})
	}
}
