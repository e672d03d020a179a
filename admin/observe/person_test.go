package observe

import (
	"testing"

	"github.com/holdfast-go/holdfast/admin"
)

const redisson = "8743c9c0-0795-4907-87fd-6c719a6b4586"

func TestDescribe(t *testing.T) {
	app := admin.Client{ID: "c", Library: "holdfast", Program: "app", Host: "vm", PID: 7}
	java := admin.Client{ID: redisson, Library: "redisson"}
	for _, test := range []struct {
		client      admin.Client
		owner, note string
		want        Person
		text        string
	}{
		{java, redisson + ":42", "", Person{Library: "Redisson", Name: "client " + redisson + " thread 42"}, "Redisson client " + redisson + " thread 42"},
		{java, redisson + ":42:write", "", Person{Library: "Redisson", Name: "client " + redisson + " thread 42"}, "Redisson client " + redisson + " thread 42"},
		{java, "", "", Person{Library: "Redisson", Name: "client " + redisson}, "Redisson client " + redisson},
		{app, "c:1", "", Person{Name: "app@vm:7"}, "app@vm:7"},
		{app, "c:1", "nightly", Person{Name: "app@vm:7", Note: "nightly"}, "app@vm:7 (nightly)"},
		{app, "c:1", "nightly (x)", Person{Name: "app@vm:7", Note: "nightly (x)"}, "app@vm:7 (nightly (x))"},
		{app, "c:1", "app@elsewhere:7 (moved)", Person{Name: "app@vm:7", Note: "app@elsewhere:7 (moved)"}, "app@vm:7 (app@elsewhere:7 (moved))"},
		{admin.Client{}, "owner\x00", "", Person{Name: "owner\x00"}, "owner\x00"},
		{admin.Client{Host: "vm"}, "c:1", "me", Person{Name: "me"}, "me"},
		{admin.Client{Note: "of the client"}, "c:1", "me", Person{Name: "of the client"}, "of the client"},
	} {
		if got := Describe(test.client, test.owner, test.note); got != test.want || got.String() != test.text {
			t.Errorf("%+v, %q, %q: got %+v and %q, want %+v and %q", test.client, test.owner, test.note, got, got, test.want, test.text)
		}
	}
}

// The command line appends its --reason and --label to the default note, where the program
// is the command that it runs. Stores without clients have the note only.
func TestDescribeReadsThePurpose(t *testing.T) {
	const name = "sh@vm:7"
	for note, want := range map[string]Person{
		name:                                  {Name: name},
		name + " (db maintenance)":            {Name: name, Purpose: Purpose{Reason: "db maintenance"}},
		name + " (db maintenance) team=a b=7": {Name: name, Purpose: Purpose{Reason: "db maintenance", Labels: "team=a b=7"}},
		name + " team=infra":                  {Name: name, Purpose: Purpose{Labels: "team=infra"}},
		"my script@vm:7 (a (b) c) team=x (y)": {Name: "my script@vm:7", Purpose: Purpose{Reason: "a (b) c) team=x (y"}},
		name + " (cut":                        {Name: name, Purpose: Purpose{Reason: "cut"}},
		name + " ()":                          {Name: name},
		name + ", the third":                  {Name: name + ", the third"},
		name + " and more":                    {Name: name + " and more"},
	} {
		for _, c := range []admin.Client{{Note: note}, {Program: "holdfast", Host: "vm", PID: 7, Note: note}} {
			got := Describe(c, "o:1", note)
			if got != want {
				t.Errorf("%+v: got %+v, want %+v", c, got, want)
			}
			if text := got.String(); text != note && text+" ()" != note && text != note+")" {
				t.Errorf("%+v: got %q, want the note", c, text)
			}
		}
	}
	for _, note := range []string{"nightly (x)", "ada@example (x)", "ci: runner 7", "@vm:7", ""} {
		if got, want := Describe(admin.Client{Note: note}, "", note), (Person{Name: note}); got != want {
			t.Errorf("%q: got %+v, want %+v", note, got, want)
		}
	}
}
