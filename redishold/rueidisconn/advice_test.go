package rueidisconn

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Advice names the settings with which rueidis searches too long for a new master. (With a
// version of rueidis that has other fields, Advice is empty, and this test fails.)
func TestAdvice(t *testing.T) {
	sentinels := serve(t, nil, sentinel("m", serve(t, nil, plain)))
	good := rueidis.ClientOption{
		InitAddress: []string{sentinels}, DisableCache: true,
		ConnWriteTimeout: 1500 * time.Millisecond, Dialer: net.Dialer{Timeout: time.Second, KeepAlive: 500 * time.Millisecond},
		Sentinel: rueidis.SentinelOption{
			MasterSet: "m", TopologyRefreshInterval: 2 * time.Second,
			Dialer: net.Dialer{Timeout: time.Second, KeepAlive: 500 * time.Millisecond},
		},
	}
	for _, tt := range []struct {
		name string
		set  func(*rueidis.ClientOption)
		want []string
	}{
		{"as documented", func(*rueidis.ClientOption) {}, nil},
		{"no look by itself", func(o *rueidis.ClientOption) { o.Sentinel.TopologyRefreshInterval = 0 }, []string{"SentinelOption.TopologyRefreshInterval"}},
		{"the library's own", func(o *rueidis.ClientOption) {
			o.ConnWriteTimeout, o.Dialer = 0, net.Dialer{}
			o.Sentinel = rueidis.SentinelOption{MasterSet: "m"}
		}, []string{"ClientOption.ConnWriteTimeout", "ClientOption.Dialer.Timeout", "SentinelOption.TopologyRefreshInterval", "SentinelOption.Dialer.Timeout"}},
		{"patient with the old master", func(o *rueidis.ClientOption) { o.Dialer.Timeout = 2 * time.Second }, []string{"ClientOption.Dialer.Timeout"}},
		{"patient with Sentinels", func(o *rueidis.ClientOption) { o.Sentinel.Dialer.Timeout = 5 * time.Second }, []string{"SentinelOption.Dialer.Timeout"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			option := good
			tt.set(&option)
			client, err := rueidis.NewClient(option)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if optionOf(client) == nil {
				t.Fatal("the settings cannot be read")
			}
			var got []string
			for _, a := range New(client).Advice() {
				got = append(got, a.Setting)
				if a.Is == "" || a.Better == "" || a.Why == "" {
					t.Errorf("incomplete: %+v", a)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got advice on %q, want %q", got, tt.want)
			}
		})
	}
}

// What Open sets needs no advice.
func TestNoAdviceOnOpen(t *testing.T) {
	conn, err := Open(t.Context(), "redis+sentinel://"+serve(t, nil, sentinel("m", serve(t, nil, plain)))+"/m", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if o := optionOf(conn.library.client); o == nil || advice(o, false) != nil {
		t.Errorf("got %+v", o)
	}
}

func TestAdviceOnClusters(t *testing.T) {
	for want, o := range []rueidis.ClientOption{
		{ConnWriteTimeout: 1500 * time.Millisecond},
		{ConnWriteTimeout: 10 * time.Second, ClusterOption: rueidis.ClusterOption{ShardsRefreshInterval: time.Second}},
		{ConnWriteTimeout: 10 * time.Second, Dialer: net.Dialer{Timeout: 5 * time.Second}},
	} {
		if got := advice(&o, true); len(got) != want {
			t.Errorf("%+v: got %+v, want %d", o, got, want)
		}
	}
}
