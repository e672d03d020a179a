package drivertest

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func historyIsKept(p *probe) {
	store := p.b.(driver.Historian)
	client, began := uuid(), time.Now()
	told := []driver.Happening{
		{Step: driver.StepAcquired, Name: p.name, Kind: driver.KindReadWrite, Mode: driver.Shared, Token: 7, Waited: time.Second},
		{Step: driver.StepLost, Name: p.name, Kind: driver.KindMutex, Held: time.Minute, Reason: string(driver.Expired)},
		{Step: driver.StepForced, Name: p.name, Owner: client + ":9", Reason: "stuck"},
		{Step: driver.StepMissed, Count: 3},
	}
	for i := range told {
		told[i].At = began.Add(time.Duration(i-len(told)) * time.Second)
	}
	calls := time.Now()
	for _, some := range [][]driver.Happening{told[:1], told[1:]} {
		if err := store.Record(p.ctx, driver.Chapter{Client: client, Note: "drivertest", Happenings: some}); err != nil {
			p.Fatalf("Record: got %v", err)
		}
	}
	all := p.history(store, driver.HistoryOptions{Past: time.Minute}, client)
	slack := time.Since(calls) + 50*time.Millisecond // of what was under way a part counts
	if len(all) != len(told) {
		p.Fatalf("History: got %d happenings, want the %d that were told: %+v", len(all), len(told), all)
	}
	for i, got := range all {
		want := told[i]
		if off := got.At.Sub(want.At).Abs(); off > slack {
			p.Errorf("History: %s was %s off", got.Step, off)
		}
		if got.Note != "drivertest" {
			p.Errorf("History: got note %q, want drivertest", got.Note)
		}
		want.ID, want.At, want.Client, want.Note = got.ID, got.At, got.Client, got.Note
		if got != want {
			p.Errorf("History: got %+v, want %+v", got, want)
		}
	}
	if rest := p.history(store, driver.HistoryOptions{After: all[1].ID}, client); !slices.Equal(ids(rest), ids(all[2:])) {
		p.Errorf("History after the second: got %v, want %v", ids(rest), ids(all[2:]))
	}
	if first := p.history(store, driver.HistoryOptions{After: all[0].ID, Most: 1}, client); !slices.Equal(ids(first), ids(all[1:2])) {
		p.Errorf("History after the first, one at most: got %v, want %v", ids(first), ids(all[1:2]))
	}
	if _, err := store.History(p.ctx, driver.HistoryOptions{After: "?"}); err == nil {
		p.Errorf("History after what is no ID: got no error")
	}
}

// history returns what is told of one client.
func (p *probe) history(store driver.Historian, o driver.HistoryOptions, client string) []driver.Happening {
	p.Helper()
	list, err := store.History(p.ctx, o)
	if err != nil {
		p.Fatalf("History: got %v", err)
	}
	return slices.DeleteFunc(list, func(h driver.Happening) bool { return h.Client.ID != client })
}

func ids(list []driver.Happening) []string {
	all := make([]string, len(list))
	for i, h := range list {
		all[i] = h.ID
	}
	return all
}
