package open

import (
	"testing"
	"testing/synctest"
	"time"
)

// A client that connects again and again makes dialBurst connections in each second.
func TestPacedDialer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made []time.Time
		d := &pacedDialer{}
		began := time.Now()
		for range 3*dialBurst + 1 {
			_, _ = d.dial(t.Context(), "") // it fails, and that does not matter
			made = append(made, time.Now())
		}
		for i, at := range made {
			if want := time.Duration(i/dialBurst) * time.Second; at.Sub(began) != want {
				t.Errorf("connection %d after %v, want %v", i, at.Sub(began), want)
			}
		}
	})
}
