package webdemo

import (
	"fmt"
	"strings"
	"time"
)

// String returns the result in a line, for plain clients.
func (r result) String() string {
	waited := short(time.Duration(r.Waited) * time.Millisecond)
	heldFor := short(time.Duration(r.Held) * time.Millisecond)
	switch {
	case r.Outcome == outcomeDone:
		return fmt.Sprintf("%s waited %s for the lock, worked for %s (token %d), and gave it back.", r.Instance, waited, heldFor, r.Token)
	case r.Outcome == outcomeLost:
		text := fmt.Sprintf("%s waited %s for the lock (token %d) and lost it within %s.", r.Instance, waited, r.Token, heldFor)
		if r.Write != "" {
			text += " It wrote nevertheless: " + r.Write + "."
		}
		return text
	case r.Token != 0:
		return fmt.Sprintf("%s had the lock (token %d) for %s: %s.", r.Instance, r.Token, heldFor, r.Error)
	default:
		return fmt.Sprintf("%s did not get the lock within %s: %s.", r.Instance, waited, r.Error)
	}
}

// String returns the places, a line for each worker.
func (s raceState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "round %d:", s.Round)
	for _, w := range s.Workers {
		if w.Place == 0 {
			fmt.Fprintf(&b, "\n     %s did not get the lock: %s", w.Name, w.Error)
			continue
		}
		fmt.Fprintf(&b, "\n  %d. %s, after %s, granted by %d of %d", w.Place, w.Name, short(time.Duration(w.Waited)*time.Millisecond), w.Granted(), len(w.Votes))
		if w.Error != "" {
			fmt.Fprintf(&b, ": %s", w.Error)
		}
	}
	fmt.Fprintf(&b, "\ntwo at once: %d times", s.Overlaps)
	return b.String()
}

// String returns the result in a line.
func (s saleState) String() string {
	how := "without a lock"
	if s.Locked {
		how = "with a lock"
	}
	if s.Error != "" {
		return fmt.Sprintf("%s: %s.", how, s.Error)
	}
	verdict := "exact"
	if n := s.Oversold(); n > 0 {
		verdict = fmt.Sprintf("OVERSOLD by %d", n)
	} else if s.Sold < s.Items && s.Buyers >= s.Items {
		verdict = fmt.Sprintf("%d items were not sold", s.Items-s.Sold)
	}
	return fmt.Sprintf("%s: %d buyers, %d items, %d sold, %d told \"sold out\", %d left in stock: %s.",
		how, s.Buyers, s.Items, s.Sold, s.SoldOut, s.Stock, verdict)
}
