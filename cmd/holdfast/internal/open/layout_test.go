package open

import (
	"testing"

	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/pghold"
)

// The parameter layout chooses the table, and is never sent to the server.
func TestLayout(t *testing.T) {
	for params, shed := range map[string]bool{"": false, "?layout=lease": false, "?layout=shedlock": true, "?layout=shedlock&table=ops.jobs&create=true": true} {
		p, err := parsePostgres(at("postgres://h/d" + params))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.options.Layout == pghold.ShedLock; got != shed {
			t.Errorf("postgres, %q: got the table of ShedLock %v, want %v", params, got, shed)
		}
		if got := p.options.Listen == nil; got != shed {
			t.Errorf("postgres, %q: got that nobody listens %v, want %v", params, got, shed)
		}
		if _, sent := p.config.ConnConfig.RuntimeParams["layout"]; sent {
			t.Errorf("postgres, %q: the server is sent our own parameter layout", params)
		}
		d, err := parseMySQL(at("mysql://h/d" + params))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.options.Layout == mysqlhold.ShedLock; got != shed {
			t.Errorf("mysql, %q: got the table of ShedLock %v, want %v", params, got, shed)
		}
		for _, scheme := range []string{"postgres", "mysql"} {
			target, err := Parse(at(scheme + "://h/d" + params))
			if err != nil {
				t.Fatal(err)
			}
			if caps := target.Info().Caps; caps.Fencing == shed {
				t.Errorf("%s, %q: got tokens %v, want %v", scheme, params, caps.Fencing, !shed)
			}
		}
	}
	if p, err := parsePostgres(at("postgres://h/d?layout=shedlock&listen=off")); err != nil || p.options.Listen != nil {
		t.Errorf("got %v, want that listen=off is what the layout does", err)
	}
}
