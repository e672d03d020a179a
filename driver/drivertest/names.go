package drivertest

import (
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// namesAreInjective holds many names at once. A store might treat some of these names as equal
// if it ignores case or accents, or if it trims, splits, escapes or shortens names.
func namesAreInjective(p *probe) {
	base := "Job" + rand.Text()[:10]
	for _, name := range p.lookalikes(base) {
		p.holdName(name, false)
	}
	// Some stores do not support every name with braces, and refuse it.
	for _, name := range []string{
		"{" + base + "}", "{" + base + "}x", "x{" + base + "}", base + "{x}", base + "{y}",
		"{{" + base + "}}", base + "{}", base + "{", base + "}",
	} {
		p.holdName(name, true)
	}
	p.holdOneByte()
}

// lookalikes returns names that differ only a little.
func (p *probe) lookalikes(base string) []string {
	names := []string{
		base, strings.ToLower(base), strings.ToUpper(base),
		base + "/1", base + "/1/", base + "/", base + "//1", "/" + base, base + "/./1", base + "/../1",
		base + ":1", base + ":", base + "1", base + "11",
		base + " ", " " + base, base + " 1", base + "  1", base + "\t", base + "\n", base + "\r\n",
		base + "%", base + "%20", base + "+", base + "%2F1", base + "_", base + "*", base + "?", base + "[1]",
		base + "'", base + `"`, base + `\`, base + `\\`, base + "\x00", base + "\x00\x00", base + "\xff", base + "\xfe",
		base + "e", base + "é", base + "e\u0301", base + "É", base + "ss", base + "ß", base + "ẞ",
		base + "i", base + "ı", base + "İ", base + "日本", base + "\U0001f512", base + "\U0001f513",
	}
	longest := 4096
	if p.Info.MaxName > 0 {
		longest = min(longest, p.Info.MaxName)
	}
	if room := longest - len(base) - 1; room > 0 {
		long := base + strings.Repeat("n", room)
		names = append(names, long+"a", long+"b", long)
	}
	fit := names[:0]
	for _, name := range names {
		if len(name) <= longest {
			fit = append(fit, name)
		}
	}
	return fit
}

// holdName takes a name that no other claim can hold, and does not release it. If `mayRefuse`
// is true, the store may return an error instead of a grant.
func (p *probe) holdName(name string, mayRefuse bool) {
	p.Helper()
	c := p.Claim()
	c.Name = name
	p.Remember(c)
	o, err := p.b.Try(p.Ctx, c)
	switch {
	case err != nil && !mayRefuse:
		p.Errorf("Try of name %s: got error %v, want a grant", shown(name), err)
	case err == nil && !o.Granted:
		p.Errorf("Try of name %s: refused, held by %q; want a grant, because no other claim has this name", shown(name), o.Holder)
	}
}

// holdOneByte takes a name of one letter. Other runs of the suite may hold such names, so it
// takes the first letter that is free.
func (p *probe) holdOneByte() {
	p.Helper()
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var last driver.Outcome
	for _, letter := range letters {
		c := p.brief()
		c.Name = string(letter)
		last = p.Try(c)
		p.Withdraw(c)
		if last.Granted {
			return
		}
	}
	p.Errorf("Try of a name of one byte: all letters refused, the last held by %q", last.Holder)
}

// shown returns a name for a message: quoted, and shortened if it is long.
func shown(name string) string {
	if len(name) > 60 {
		name = name[:40] + "..." + name[len(name)-10:]
	}
	return strconv.QuoteToASCII(name)
}
