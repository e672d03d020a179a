package redisurl

import (
	"net"
	"slices"
	"strings"
	"testing"
)

// parsed is what a test looks at of a Target.
type parsed struct {
	addrs          string // joined by a blank
	user, password string
	db             int
	tls            bool
	kind           Deployment
	master         string
	sentinelUser   string
	sentinelPass   string
}

func look(t Target) parsed {
	return parsed{
		strings.Join(t.Addrs, " "), t.Username, t.Password, t.DB, t.TLS,
		t.Deployment, t.Master, t.SentinelUsername, t.SentinelPassword,
	}
}

func TestParseTarget(t *testing.T) {
	for raw, want := range map[string]parsed{
		"redis://h":                            {addrs: "h:6379"},
		"redis://":                             {addrs: "localhost:6379"},
		"redis://:7000":                        {addrs: "localhost:7000"},
		"redis://h/":                           {addrs: "h:6379"},
		"redis://h:7000/3":                     {addrs: "h:7000", db: 3},
		"redis://u:p%40w@h":                    {addrs: "h:6379", user: "u", password: "p@w"},
		"redis://u:p@w@h":                      {addrs: "h:6379", user: "u", password: "p@w"},
		"valkey://h:7000?db=2":                 {addrs: "h:7000", db: 2},
		"rediss://:pw@h":                       {addrs: "h:6379", password: "pw", tls: true},
		"valkeys://h?skip_verify=true":         {addrs: "h:6379", tls: true},
		"unix://u:pw@/run%40/redis.sock":       {addrs: "/run@/redis.sock", user: "u", password: "pw", kind: OneSocket},
		"unix:///run/redis.sock?db=1":          {addrs: "/run/redis.sock", db: 1, kind: OneSocket},
		"unix://u:pw@/run/redis@1.sock":        {addrs: "/run/redis@1.sock", user: "u", password: "pw", kind: OneSocket},
		"redis://[::1]:7000":                   {addrs: "[::1]:7000"},
		"redis://[::1]":                        {addrs: "[::1]:6379"},
		"redis://h?dial_timeout=1s&protocol=2": {addrs: "h:6379"},

		"redis://h?addr=h2":                   {addrs: "h:6379 h2:6379", kind: OnlyCluster},
		"redis://h:1?addr=h2:2&addr=[::1]":    {addrs: "h:1 h2:2 [::1]:6379", kind: OnlyCluster},
		"redis+cluster://h1":                  {addrs: "h1:6379", kind: OnlyCluster},
		"redis+cluster://h1,h2:7000,h3/0":     {addrs: "h1:6379 h2:7000 h3:6379", kind: OnlyCluster},
		"valkey+cluster://[::1]:7000,[::2]":   {addrs: "[::1]:7000 [::2]:6379", kind: OnlyCluster},
		"redis+cluster://[fe80::1%25eth0],h2": {addrs: "[fe80::1%eth0]:6379 h2:6379", kind: OnlyCluster},
		"rediss+cluster://u:p,w@h1,h2?addr=h3": {
			addrs: "h1:6379 h2:6379 h3:6379", user: "u", password: "p,w", tls: true, kind: OnlyCluster,
		},
		"valkeys+cluster://h1,h2/?client_name=c": {addrs: "h1:6379 h2:6379", tls: true, kind: OnlyCluster},

		"redis+sentinel://s1/mymaster":       {addrs: "s1:26379", kind: Sentinels, master: "mymaster"},
		"redis+sentinel://s1/mymaster/":      {addrs: "s1:26379", kind: Sentinels, master: "mymaster"},
		"redis+sentinel://s1,s2:7/m.1-x_y/2": {addrs: "s1:26379 s2:7", db: 2, kind: Sentinels, master: "m.1-x_y"},
		"valkeys-sentinel://[::1],[::2]:7/m": {addrs: "[::1]:26379 [::2]:7", tls: true, kind: Sentinels, master: "m"},
		"redis+sentinel://u:p%2Fw@s1,s2/m/0?sentinel_username=su&sentinel_password=s%40p": {
			addrs: "s1:26379 s2:26379", user: "u", password: "p/w", kind: Sentinels, master: "m", sentinelUser: "su", sentinelPass: "s@p",
		},
		"redis://h/1?addr=h2":                         {addrs: "h:6379 h2:6379", db: 1, kind: OnlyCluster},
		"redis+cluster://h1,h2/2":                     {addrs: "h1:6379 h2:6379", db: 2, kind: OnlyCluster},
		"redis+cluster://h?db=1":                      {addrs: "h:6379", db: 1, kind: OnlyCluster},
		"redis-sentinel://h1,h2/0?master=m":           {addrs: "h1:26379 h2:26379", kind: Sentinels, master: "m"},
		"redis-sentinel://h1/1?sentinelMasterId=m":    {addrs: "h1:26379", db: 1, kind: Sentinels, master: "m"},
		"rediss-sentinel://h1?master_name=m":          {addrs: "h1:26379", tls: true, kind: Sentinels, master: "m"},
		"rediss+sentinel://h1?master_set=7&master=7":  {addrs: "h1:26379", tls: true, kind: Sentinels, master: "7"},
		"valkey-sentinel://:pw@h1/?master=m&db=4":     {addrs: "h1:26379", password: "pw", db: 4, kind: Sentinels, master: "m"},
		"valkey+sentinel://h1,h2/m?protocol=3&db=4":   {addrs: "h1:26379 h2:26379", db: 4, kind: Sentinels, master: "m"},
		"valkeys+sentinel://h1/m?skip_verify=1":       {addrs: "h1:26379", tls: true, kind: Sentinels, master: "m"},
		"redis+sentinel://h1/m?sentinel_password=%3f": {addrs: "h1:26379", kind: Sentinels, master: "m", sentinelPass: "?"},
	} {
		got, err := ParseTarget(raw)
		if err != nil {
			t.Errorf("%s: got error %v", raw, err)
		} else if look(got) != want {
			t.Errorf("%s: got %+v, want %+v", raw, look(got), want)
		}
	}
}

func TestURLSkipsVerifyingOnlyWhereItSaysSo(t *testing.T) {
	for raw, want := range map[string]bool{
		"rediss://h":                         false,
		"rediss://h?skip_verify=false":       false,
		"rediss://h?skip_verify=true":        true,
		"rediss+cluster://h,i?skip_verify":   true,
		"rediss+sentinel://h/m":              false,
		"rediss+sentinel://h/m?skip_verify=": true,
		"redis://h":                          false,
	} {
		got, err := ParseTarget(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if got.SkipVerify != want {
			t.Errorf("%s: certificates are not verified: %v, want %v", raw, !want, want)
		}
	}
}

func TestParseTargetErrors(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://h?timeout=1s":              `unknown parameter "timeout" (known here: addr, client_name, db,`,
		"redis://h?master_set=m":            `unknown parameter "master_set"`,
		"redis+cluster://h?master=m":        `unknown parameter "master"`,
		"redis+sentinel://h/m?addr=h2":      `unknown parameter "addr"`,
		"unix:///s?addr=h2":                 `unknown parameter "addr"`,
		"redis://h?db=1&db=2":               `"db" more than once`,
		"redis://h?skip_verify=true":        "asks for no TLS",
		"redis://h?protocol=4":              "neither 2 nor 3",
		"redis://h?write_timeout=-1s":       `"write_timeout" that is no duration`,
		"redis://u:secret@h?dial_timeout=x": `"dial_timeout" that is no duration`,

		"http://h":               `unknown scheme "http" (known: redis, rediss,`,
		"h:6379":                 "no scheme",
		"":                       "unknown scheme",
		"redis:h":                "no scheme",
		"redis":                  "cannot be taken apart",
		"u:secret@h:6379":        "no scheme",
		"//u:secret@h:6379":      "no scheme",
		"redis+sentinels://h/m":  "unknown scheme",
		"redis+unix:///s":        "unknown scheme",
		"redis://u:se/cret@h":    "cannot be taken apart",
		"redis://u:9/secret@h":   "cannot be taken apart",
		"redis://u:9?secret@h":   "cannot be taken apart",
		"redis://u:9#secret@h":   "cannot be taken apart",
		"redis://u:secret%zz@h":  "cannot be taken apart",
		"unix://u:9/secret@/s":   "cannot be taken apart",
		"unix://u:x@/secret@/s":  "cannot be taken apart",
		"unix://run/redis.sock":  "cannot be taken apart",
		"unix://":                "names no socket",
		"redis://::1":            "invalid host",
		"redis://h:0":            "between 1 and 65535",
		"redis://h:65536":        "between 1 and 65535",
		"redis://h/one":          "invalid database number",
		"redis://h/-1":           "invalid database number",
		"redis://h1,h2":          "several hosts: use redis+cluster://",
		"redis://h1:1,h2:2":      "several hosts: use redis+cluster://",
		"redis://h?addr=":        "invalid host",
		"redis://h?addr=h2/1":    "cannot be taken apart",
		"redis://h?addr=u%40h2":  "cannot be taken apart",
		"redis+cluster://h1,":    "invalid host",
		"redis+cluster://,h1":    "invalid host",
		"redis+cluster://":       "invalid host",
		"redis+cluster://::1,h2": "invalid host",
		"redis+cluster://h,::1":  "invalid host",

		"redis+cluster://u:9/secret@h1,h2":           "cannot be taken apart",
		"redis+sentinel://u:9/secret@h1,h2/m":        "cannot be taken apart",
		"redis+sentinel://h/m?sentinel_password=s@h": "cannot be taken apart",
		"redis+sentinel://h1,h2":                     "no master",
		"redis+sentinel://h1,h2/":                    "no master",
		"redis+sentinel://h1,h2/0":                   "no master",
		"redis-sentinel://h1,h2/0?master=":           "no master",
		"redis-sentinel://h1?master=a&master_set=b":  "two masters",
		"redis-sentinel://h1#mymaster":               "cannot be taken apart",
		"redis+sentinel://h1/m/one":                  "invalid database number",
		"redis+sentinel://h1/m/0/1":                  "invalid URL path",
	} {
		_, err := ParseTarget(raw)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", raw, err, want)
			continue
		}
		if strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: the error shows the password: %v", raw, err)
		}
	}
}

// marker is the part of a password that no error may show.
const marker = "S3cr3tM4rk"

func FuzzParseTarget(f *testing.F) {
	schemes := []string{
		"redis", "rediss", "valkey", "valkeys", "unix", "redis+cluster", "rediss+cluster",
		"redis+sentinel", "rediss-sentinel", "valkeys-sentinel", "http", "",
	}
	for _, seed := range [][2]string{
		{"", "h"},
		{"", "h:6379/0"},
		{"p@", "h1,h2:7000,[::1]:1/0"},
		{"p/", "h/m/0"},
		{"9/", "h1,h2/m"},
		{"9?", "h?addr=h2&addr=[::2]"},
		{"9#", "h/0?master=m&sentinel_password=x"},
		{"%", "h"},
		{"%41,", "h1,,h2"},
		{"x@h,", "[fe80::1%25e]:1,h/m?db=1"},
		{"x@h?db=", "h"},
		{"[", "h]"},
		{"x@/", "/run/redis.sock?db=1"},
		{"\x00", ":"},
		{":", "h/1?protocol=2&dial_timeout=1s"},
	} {
		for i := range schemes {
			f.Add(uint8(i), seed[0], seed[1])
		}
	}
	f.Fuzz(func(t *testing.T, scheme uint8, password, rest string) {
		name := schemes[int(scheme)%len(schemes)]
		if name == "unix" {
			rest = "/" + rest // otherwise the last @ need not be the end of the password
		}
		raw := name + "://u:" + password + marker + "@" + rest
		got, err := ParseTarget(raw)
		switch {
		case err != nil && strings.Contains(err.Error(), marker):
			t.Fatalf("%q: the error shows the password: %v", raw, err)
		case err != nil:
			return
		case !strings.Contains(got.Password, marker):
			t.Fatalf("%q: got password %q", raw, got.Password)
		}
		checkTarget(t, raw, got)
		if bare, err := ParseTarget(strings.Replace(raw, "u:"+password+marker+"@", "", 1)); err == nil {
			checkTarget(t, raw, bare)
		}
	})
}

func checkTarget(t *testing.T, raw string, got Target) {
	addrs := got.Addrs
	if len(addrs) == 0 || slices.Contains(addrs, "") {
		t.Fatalf("%q: got addresses %q", raw, addrs)
	}
	if got.Deployment == OneSocket {
		return
	}
	for _, addr := range addrs {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			t.Fatalf("%q: got address %q: %v", raw, addr, err)
		}
	}
	if (got.Deployment == Sentinels) != (got.Master != "") {
		t.Fatalf("%q: got master %q", raw, got.Master)
	}
	if addrs := strings.Join(addrs, " "); strings.Contains(addrs, marker) {
		t.Fatalf("%q: %q shows the password", raw, addrs)
	}
}
