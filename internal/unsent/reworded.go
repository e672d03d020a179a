package unsent

// Reworded returns an error that wraps err and has another text, for the text of a client
// library that helps no user.
func Reworded(err error, text string) error { return &reworded{err, text} }

type reworded struct {
	cause error
	text  string
}

// Error implements error.
func (e *reworded) Error() string { return e.text }

// Unwrap returns the error that was reworded.
func (e *reworded) Unwrap() error { return e.cause }
