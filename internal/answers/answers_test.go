package answers_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/answers/answerstest"
)

// root is the path of the repository.
const root = "../.."

// The tables of docs/answers.md have all answers that the code knows, and no others.
func TestTable(t *testing.T) {
	numbered := func(section string, from, to int, other answers.Meaning, meaning func(int) answers.Meaning) {
		want := map[int]answers.Meaning{}
		for _, r := range answerstest.Rows(t, root, section) {
			n, err := strconv.Atoi(r.Answer)
			if err != nil {
				t.Errorf("%s: %v", section, err)
			}
			want[n] = r.Meaning
		}
		for n := from; n <= to; n++ {
			in, ok := want[n]
			if !ok {
				in = other
			}
			if got := meaning(n); got != in {
				t.Errorf("%s: %d is %s, the table says %s", section, n, got, in)
			}
			delete(want, n)
		}
		for n := range want {
			t.Errorf("%s: the table has %d, which is not tested", section, n)
		}
	}
	numbered("MySQL and MariaDB", 0, 9999, answers.Unknown, answers.MySQL)
	numbered("ZooKeeper", -200, 0, answers.Unknown, answers.ZooKeeper)

	for _, r := range answerstest.Rows(t, root, "etcd") {
		if got := answers.Etcd("etcdserver: " + r.Answer); got != r.Meaning {
			t.Errorf("etcd: %q is %s, the table says %s", r.Answer, got, r.Meaning)
		}
	}
	if got := answers.Etcd("etcdserver: request timed out"); got != answers.Unknown {
		t.Errorf("etcd: any other text is %s, want unknown", got)
	}
}

func TestTableOfPostgres(t *testing.T) {
	const section = "PostgreSQL and its poolers"
	classes := map[string]answers.Meaning{}
	for _, r := range answerstest.Rows(t, root, section) {
		state := r.Answer
		if len(state) == 2 {
			classes[state] = r.Meaning
			state += "000"
		}
		if got := answers.Postgres(state, "FATAL: "+r.Text+" for x"); got != r.Meaning {
			t.Errorf("%s %q is %s, the table says %s", r.Answer, r.Text, got, r.Meaning)
		}
	}
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, a := range digits {
		for _, b := range digits {
			class := string(a) + string(b)
			want, ok := classes[class]
			if !ok {
				want = answers.Later
			}
			if got := answers.Postgres(class+"000", ""); got != want {
				t.Errorf("class %s is %s, the table says %s", class, got, want)
			}
		}
	}
	for _, text := range []string{
		"server login has been failing, try again later (server_login_retry)", "query_wait_timeout", "no more connections allowed (max_client_conn)",
		"client_login_timeout (server down)", `database "x" is disabled`, "pgbouncer cannot connect to server", "server conn crashed?", "",
	} {
		if got := answers.Postgres("08P01", text); got != answers.Later {
			t.Errorf("08P01 %q is %s, want later", text, got)
		}
	}
}

func TestRefusal(t *testing.T) {
	synctest.Test(t, testRefusal)
}

func testRefusal(t *testing.T) {
	for meaning, want := range map[answers.Meaning]error{
		answers.Denied: driver.ErrDenied, answers.Unable: driver.ErrUnable, answers.Invalid: driver.ErrInvalid, answers.Refused: driver.ErrRefused,
		answers.Later: nil, answers.Unknown: nil, answers.Conflict: nil, answers.Gone: nil, answers.Mismatch: nil,
	} {
		got := meaning.Refusal()
		if !errors.Is(got, want) || want != nil && !errors.Is(got, driver.ErrRefused) {
			t.Errorf("%s: got %v, want %v, which is an ErrRefused", meaning, got, want)
		}
		for _, other := range []error{driver.ErrDenied, driver.ErrUnable, driver.ErrInvalid} {
			if errors.Is(got, other) != (other == want) { //nolint:errorlint // identity: each kind is only itself
				t.Errorf("%s: is it %#v: %v", meaning, other, errors.Is(got, other))
			}
		}
		if want != nil && fmt.Sprint(got) != "refused by the store" {
			t.Errorf("%s: got the text %q", meaning, got)
		}
	}
}
