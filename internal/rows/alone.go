package rows

import "time"

const (
	// aloneFor is how long an Alone remembers that the row of a name exists.
	aloneFor = time.Minute

	// sharedFor is how long an Alone remembers that several clients want a name.
	sharedFor = time.Second
)

// Alone remembers which names this client is probably the only one to want. The row of such a name
// exists, is free when this client wants it, and has no waiters. A Table then sends a statement
// that reads and writes less, and changes nothing in any other case. If that statement has changed
// nothing, the Table sends the statement for all cases. The zero Alone knows no names.
type Alone struct {
	granted Recent[struct{}]
	shared  Recent[struct{}]
}

// Granted records that this client was granted a name.
func (a *Alone) Granted(name string) { a.granted.Add(name, struct{}{}, aloneFor) }

// Shared records that another client holds the name or waits for it.
func (a *Alone) Shared(name string) { a.shared.Add(name, struct{}{}, sharedFor) }

// Is reports whether this client is probably the only one that wants the name.
func (a *Alone) Is(name string) bool {
	_, granted := a.granted.Get(name)
	_, shared := a.shared.Get(name)
	return granted && !shared
}
