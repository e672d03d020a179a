package mysqltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// A list has the names that are taken, whatever bytes they have, and a hold shows the
// first of its tokens.
func TestList(t *testing.T) {
	for _, params := range []string{"", "?interpolateParams=true"} {
		t.Run("params "+fmt.Sprint(params != ""), func(t *testing.T) {
			b := sqltest.Prepared(t, mysqlhold.New(newDB(t, database(t)+params), nil))
			want := []string{"Job", "job", "job ", `job \ 1`, "job é", "job \xc3", "zé\x00"}
			tokens := map[string]uint64{}
			for i, name := range want {
				c := sqltest.Claim(name, uint64(i+1))
				c.Tokens = 5
				for range 3 { // each time with the same tokens
					out, err := b.Try(t.Context(), c)
					if err != nil || !out.Granted || tokens[name] != 0 && tokens[name] != out.Token {
						t.Fatalf("Try of %q: got %+v and error %v", name, out, err)
					}
					tokens[name] = out.Token
				}
			}
			var got []string
			for r, err := range admin.New(b).List(t.Context(), admin.Filter{}) {
				if err != nil || len(r.Holds) != 1 || r.Holds[0].Token != tokens[r.Name] {
					t.Fatalf("got %+v and error %v, want the token %d", r, err, tokens[r.Name])
				}
				got = append(got, r.Name)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
