package open

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// fakeEtcd is a cluster: its members, and which of them answers at a URL.
type fakeEtcd struct {
	inURL   []string
	members []*etcdserverpb.Member
	at      map[string]uint64
}

func (f *fakeEtcd) Endpoints() []string { return f.inURL }

func (f *fakeEtcd) Status(ctx context.Context, server string) (*clientv3.StatusResponse, error) {
	if id, ok := f.at[server]; ok {
		return &clientv3.StatusResponse{Header: &etcdserverpb.ResponseHeader{MemberId: id}, Leader: 1, DbSize: 1 << 20}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (f *fakeEtcd) MemberList(context.Context, ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	return &clientv3.MemberListResponse{Members: f.members}, nil
}

// threeMembers is a healthy cluster with a learner that is down, and a client that knows
// one member.
func threeMembers() *fakeEtcd {
	f := &fakeEtcd{inURL: []string{"http://m1:2379"}, at: make(map[string]uint64)}
	for id := uint64(1); id <= 4; id++ {
		url := fmt.Sprintf("http://m%d:2379", id)
		f.members = append(f.members, &etcdserverpb.Member{ID: id, Name: fmt.Sprint("m", id), ClientURLs: []string{url}, IsLearner: id == 4})
		if id < 4 {
			f.at[url] = id
		}
	}
	return f
}

// A grpc-proxy names itself as the only member. That is no member that can be removed.
func TestEtcdProxy(t *testing.T) {
	f := &fakeEtcd{inURL: []string{"http://proxy:23790"}, at: map[string]uint64{"http://proxy:23790": 1}}
	f.members = []*etcdserverpb.Member{{Name: "host", ClientURLs: []string{"http://127.0.0.1:23790"}}}
	all, err := examineEtcd(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	named := false
	for _, found := range all.findings {
		named = named || strings.Contains(found.Saw, "grpc-proxy")
		if found.Severity > doctor.Note || strings.Contains(found.Remedy, "remove") {
			t.Errorf("got %+v, want no warning and nothing to remove", found)
		}
	}
	if !named {
		t.Errorf("got %+v, want the proxy", all.findings)
	}
}

// Each voting member is asked, also one that is not in the URL. One that cannot be reached
// is a finding with its name, and costs the time of one call.
func TestEtcdMembers(t *testing.T) {
	for what, test := range map[string]struct {
		change  func(*fakeEtcd)
		servers int
		saw     []string // of the warnings
	}{
		"all answer":     {func(*fakeEtcd) {}, 3, nil},
		"one is down":    {func(f *fakeEtcd) { delete(f.at, "http://m2:2379") }, 3, []string{"member m2 cannot be reached from here: http://m2:2379: context deadline exceeded"}},
		"two are down":   {func(f *fakeEtcd) { delete(f.at, "http://m2:2379"); delete(f.at, "http://m3:2379") }, 3, []string{"member m2 ", "member m3 "}},
		"a second URL":   {func(f *fakeEtcd) { f.members[1].ClientURLs = []string{"http://inside:2379", "http://m2:2379"} }, 3, nil},
		"no URL":         {func(f *fakeEtcd) { f.members[1].ClientURLs = nil }, 2, []string{"member m2 cannot be reached from here: it advertises no URL"}},
		"never started":  {func(f *fakeEtcd) { f.members[1] = &etcdserverpb.Member{ID: 0xab} }, 2, []string{"member ab cannot be reached from here: it advertises no URL"}},
		"localhost":      {func(f *fakeEtcd) { f.members[1].ClientURLs = f.inURL }, 2, []string{"member m2 cannot be reached from here: http://m1:2379: another member answers"}},
		"another member": {func(f *fakeEtcd) { f.at["http://m2:2379"] = 3 }, 2, []string{"member m2 cannot be reached from here: http://m2:2379: another member answers"}},
		"it is in the URL": {func(f *fakeEtcd) {
			f.inURL = append(f.inURL, "http://m2:2379")
			delete(f.at, "http://m2:2379")
		}, 3, []string{"member m2 cannot be reached from here: http://m2:2379: context deadline exceeded"}},
		"a learner is in the URL": {func(f *fakeEtcd) { f.inURL = append(f.inURL, "http://m4:2379") }, 4, []string{"the server does not answer: context deadline exceeded"}},
		"a login over TLS": {func(f *fakeEtcd) {
			f.inURL, f.at = []string{"https://m1:2379"}, map[string]uint64{"https://m1:2379": 1, "http://m2:2379": 2, "https://m3:2379": 3}
			f.members[2].ClientURLs = []string{"https://m3:2379"}
		}, 3, []string{"http://m2:2379: not asked, because this URL has no TLS"}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := threeMembers()
				test.change(f)
				began := time.Now()
				all, err := examineEtcd(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 2*askLimit {
					t.Errorf("it took %v, want that members are asked at the same time", took)
				}
				if len(all.servers) != test.servers {
					t.Errorf("got servers %v, want %d", all.servers, test.servers)
				}
				var wanted, saw []string
				for range test.saw {
					wanted = append(wanted, "answers warning")
				}
				want(t, all.findings, wanted...)
				for _, f := range all.findings {
					saw = append(saw, f.Saw)
				}
				texts := strings.Join(saw, "\n")
				for _, text := range test.saw {
					if !strings.Contains(texts, text) {
						t.Errorf("got %s\nwant %q", texts, text)
					}
				}
			})
		})
	}
}
