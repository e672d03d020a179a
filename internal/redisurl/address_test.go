package redisurl

import "testing"

func TestAddress(t *testing.T) {
	one, two := []string{"h:1"}, []string{"h:1", "[::1]:2"}
	for want, address := range map[string]Address{
		"redis://h:1":                         {Addrs: one},
		"redis://h:1/3":                       {Kind: "single", Addrs: one, Database: 3},
		"rediss+cluster://h:1,[::1]:2":        {Encrypts: true, Kind: "cluster", Addrs: two},
		"redis+sentinel://h:1,[::1]:2/m/3":    {Kind: "sentinel", Addrs: two, Master: "m", Database: 3},
		"redis+sentinel://h:1/?master=7":      {Kind: "sentinel", Addrs: one, Master: "7"},
		"redis+sentinel://h:1/2?master=a%2Fb": {Kind: "sentinel", Addrs: one, Master: "a/b", Database: 2},
		"unix:///run/redis.sock?db=1":         {Addrs: []string{"/run/redis.sock"}, Database: 1},
	} {
		if got := address.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
