package stores

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseInfo(t *testing.T) {
	const info = "# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:2.250000\r\nused_cpu_sys_children:9.0\r\n" +
		"# Commandstats\r\ncmdstat_evalsha:calls=20,usec=300,usec_per_call=15.00\r\ncmdstat_eval:calls=1,usec=3\r\n" +
		"cmdstat_set:calls=10,usec=3\r\ncmdstat_client|id:calls=2,usec=1\r\ncmdstat_info:calls=50,usec=1\r\ncmdstat_flushall:calls=7,usec=1\r\n"
	w, err := parseInfo(info)
	if err != nil {
		t.Fatal(err)
	}
	if w.Requests != 33 || w.Calls != 21 || w.CPU != 3750*time.Millisecond {
		t.Fatalf("got %d commands, %d calls, %v, want 33, 21, 3.75s", w.Requests, w.Calls, w.CPU)
	}
	if _, err := parseInfo("cmdstat_set:calls=many\r\n"); err == nil {
		t.Fatal("got no error for a number that is none")
	}
}
