package access

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPasswords(t *testing.T) {
	for raw, want := range map[string][2]bool{
		"redis://h":                                   {false, false},
		"redis://app@h":                               {false, false},
		"redis://app:@h":                              {false, false},
		"redis://app:pw@h":                            {true, true},
		"redis+cluster://:p@w@h1,[::1]:7,h2":          {true, true},
		"redis+sentinel://h1,h2/m":                    {false, false},
		"redis+sentinel://h/m?sentinel_password=pw":   {false, true},
		"redis+sentinel://:p@h/m?sentinel_password=x": {true, true},
		"unix:///run/a:b@c.sock":                      {false, false},
		"nothing":                                     {false, false},
	} {
		store, any := Passwords(raw)
		if got := [2]bool{store, any}; got != want {
			t.Errorf("%s: got %v, want %v", raw, got, want)
		}
	}
}
