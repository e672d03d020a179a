package redisurl

import (
	"slices"
	"strings"
	"testing"
)

// blotted shows a text with *** where Secrets found something.
func blotted(text string) string {
	var shown strings.Builder
	last := 0
	for _, s := range Secrets(text) {
		shown.WriteString(text[last:s.From] + "***")
		last = s.To
	}
	return shown.String() + text[last:]
}

func TestSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"redis://app:s3cret@h:1/0":                         "redis://app:***@h:1/0",
		"--url=redis://:s3cret@h":                          "--url=redis://:***@h",
		"redis://app@h":                                    "redis://app@h",
		"redis://h:6379":                                   "redis://h:6379",
		"redis://app:s3/cr@et@h/1":                         "redis://app:***@h/1",
		"redis://%61pp:s%33cret@h":                         "redis://%61pp:***@h",
		"redis://app:password=s3@h/1":                      "redis://app:***@h/1",
		"redis+sentinel://a:s3cret@h,i/m?x=1":              "redis+sentinel://a:***@h,i/m?x=1",
		"redis+sentinel://h/m?sentinel_password=s3&x":      "redis+sentinel://h/m?sentinel_password=***&x",
		"redis+sentinel://a:s3@h/m?sentinel_password=s3&":  "redis+sentinel://a:***@h/m?sentinel_password=***&",
		"redis+sentinel://h/m?sentinel_password=s3@s3":     "redis+sentinel://h/m?sentinel_password=***",
		"redis+sentinel://h/m?sentinel_password=s3?s=3#s":  "redis+sentinel://h/m?sentinel_password=***",
		"redis+sentinel://h/m?sentinel_p%61ssword=s3&x=1":  "redis+sentinel://h/m?sentinel_p%61ssword=***&x=1",
		"redis+sentinel://h/m?x=1&%73entinel%5Fpassword=s": "redis+sentinel://h/m?x=1&%73entinel%5Fpassword=***",
		"redis+sentinel://h/m?sentinel_passwor%64=s3":      "redis+sentinel://h/m?sentinel_passwor%64=***",
		"redis+sentinel://h/m?Sentinel_P%41ssword=s3":      "redis+sentinel://h/m?Sentinel_P%41ssword=***",
		"redis+sentinel://h/m?%zzp%61ssword=s3":            "redis+sentinel://h/m?%zzp%61ssword=***", // refused, but typed
		"redis+sentinel://h/m&sentinel_password=s3":        "redis+sentinel://h/m&sentinel_password=***",
		"redis+sentinel://h/m?p%61sswor=1&x=2":             "redis+sentinel://h/m?p%61sswor=1&x=2",
		"postgres://u:p@h and more":                        "postgres://u:***@h and more",
		"no url: a:b@c":                                    "no url: a:b@c",
		"://":                                              "://",
		"":                                                 "",
	} {
		if got := blotted(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

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

// What one scanner takes for a password, all do: however its parameter is written.
func TestScannersAgree(t *testing.T) {
	for _, name := range spellings("sentinel_password") {
		raw := "redis+sentinel://h/m?db=1&" + name + "=s3cret"
		if got := blotted(raw); strings.Contains(got, "s3cret") {
			t.Errorf("Secrets leaves %s", got)
		}
		if got := Redacted(raw); strings.Contains(got, "s3cret") {
			t.Errorf("Redacted leaves %s", got)
		}
		if store, any := Passwords(raw); store || !any {
			t.Errorf("Passwords of %s: got %v, %v, want false, true", raw, store, any)
		}
	}
	for _, password := range spellings("s3cret") {
		raw := "redis://app:" + password + "@h/1"
		if got := blotted(raw); got != "redis://app:***@h/1" {
			t.Errorf("Secrets leaves %s", got)
		}
		if got := Redacted(raw); got != "redis://app@h/1" {
			t.Errorf("Redacted leaves %s", got)
		}
		if store, any := Passwords(raw); !store || !any {
			t.Errorf("Passwords of %s: got %v, %v, want true, true", raw, store, any)
		}
	}
}

// spellings returns ways to write text in a URL: each letter encoded, and all.
func spellings(text string) []string {
	const digits = "0123456789abcdef"
	encode := func(c byte) string { return "%" + string(digits[c>>4]) + string(digits[c&15]) }
	all := []string{text}
	var whole strings.Builder
	for i := range len(text) {
		all = append(all, text[:i]+encode(text[i])+text[i+1:])
		whole.WriteString(encode(text[i]))
	}
	return slices.Concat(all, []string{whole.String(), strings.ToUpper(whole.String())})
}

func FuzzSecrets(f *testing.F) {
	for _, seed := range []string{"redis://a:b@h/0?sentinel_password=x", "x://?password=a&password=b@", "://:@", "a://b:c@d://e:f@g"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for _, s := range Secrets(text) {
			if s.From < last || s.To < s.From || s.To > len(text) {
				t.Fatalf("%q: got %v after %d, want spans in order and within", text, s, last)
			}
			last = s.To
		}
		for _, s := range Secrets(Redacted(text)) {
			if shown := Redacted(text); shown[s.From:s.To] != "%2A%2A%2A" {
				t.Fatalf("%q: redacted it is %q, in which there is a password", text, shown)
			}
		}
	})
}

// FuzzPassword: no password survives, in whichever place it stands.
func FuzzPassword(f *testing.F) {
	const marker = "S3cr3tM4rk"
	for _, scheme := range []string{"redis", "rediss+cluster", "redis+sentinel", "unix", "u:p@redis", ""} {
		for _, password := range []string{"", "/", "9?", "9#", "%", "x@h,", "x@h?db=", "[", "x@/", ":", "%41;"} {
			f.Add(scheme, password, "h1,h2:7000/m?db=1")
		}
	}
	f.Fuzz(func(t *testing.T, scheme, password, rest string) {
		if strings.Contains(scheme, "://") {
			return
		}
		inParameter := strings.ReplaceAll(password, "&", "")
		for _, raw := range []string{
			scheme + "://u:" + password + marker + "@" + rest,
			scheme + "://" + rest + "?sentinel%5Fpassword=" + inParameter + marker,
			scheme + "://u:" + password + marker + "@" + rest + "?sentinel_password=" + inParameter + marker,
		} {
			if shown := Redacted(raw); strings.Contains(shown, marker) {
				t.Fatalf("%q: redacted it is %q", raw, shown)
			}
			if shown := blotted(raw); strings.Contains(shown, marker) {
				t.Fatalf("%q: blotted out it is %q", raw, shown)
			}
			if _, _, err := Parse(raw); err != nil && strings.Contains(err.Error(), marker) {
				t.Fatalf("%q: the error shows the password: %v", raw, err)
			}
		}
	})
}
