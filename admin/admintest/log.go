package admintest

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

func logIsKept(p *probe) {
	by, began := admin.Client{ID: uuid.New(), Note: "admintest"}, time.Now()
	written := []admin.Entry{
		{Type: admin.EntryAcquired, Name: p.Name, Kind: admin.KindReadWrite, Mode: driver.Shared, Token: 7, Waited: time.Second},
		{Type: admin.EntryLost, Name: p.Name, Kind: admin.KindMutex, HeldFor: time.Minute, Reason: string(driver.ReasonExpired)},
		{Type: admin.EntryForced, Name: p.Name, Owner: by.ID + ":9", Reason: "stuck"},
		{Type: admin.EntryMissed, Count: 3},
	}
	for i := range written {
		written[i].At = began.Add(time.Duration(i-len(written)) * time.Second)
	}
	calls := time.Now()
	for _, some := range [][]admin.Entry{written[:1], written[1:]} {
		if err := p.store.AppendLog(p.Ctx, by, some); err != nil {
			p.Fatalf("AppendLog: got %v", err)
		}
	}
	all := p.log(admin.LogFilter{Last: time.Minute}, by)
	slack := time.Since(calls) + 50*time.Millisecond // Entry.At may be wrong by the duration of a call
	if len(all) != len(written) {
		p.Fatalf("ReadLog: got %d entries, want the %d that were written: %+v", len(all), len(written), all)
	}
	for i, got := range all {
		want := written[i]
		if off := got.At.Sub(want.At).Abs(); off > slack {
			p.Errorf("ReadLog: %s was %s off", got.Type, off)
		}
		if got.Note != by.Note {
			p.Errorf("ReadLog: got note %q, want %q", got.Note, by.Note)
		}
		want.ID, want.At, want.Client, want.Note = got.ID, got.At, got.Client, got.Note
		if got != want {
			p.Errorf("ReadLog: got %+v, want %+v", got, want)
		}
	}
	if rest := p.log(admin.LogFilter{After: all[1].ID}, by); !slices.Equal(ids(rest), ids(all[2:])) {
		p.Errorf("ReadLog after the second entry: got %v, want %v", ids(rest), ids(all[2:]))
	}
	if first := p.log(admin.LogFilter{After: all[0].ID, Limit: 1}, by); !slices.Equal(ids(first), ids(all[1:2])) {
		p.Errorf("ReadLog after the first entry, with Limit 1: got %v, want %v", ids(first), ids(all[1:2]))
	}
	if _, err := p.store.ReadLog(p.Ctx, admin.LogFilter{After: "?"}); err == nil {
		p.Errorf("ReadLog after a text that is no ID: got no error")
	}
}

// log returns the entries that the filter f selects and the client `by` has written.
func (p *probe) log(f admin.LogFilter, by admin.Client) []admin.Entry {
	p.Helper()
	list, err := p.store.ReadLog(p.Ctx, f)
	if err != nil {
		p.Fatalf("ReadLog: got %v", err)
	}
	return slices.DeleteFunc(list, func(e admin.Entry) bool { return e.Client.ID != by.ID })
}

func ids(list []admin.Entry) []string {
	all := make([]string, len(list))
	for i, e := range list {
		all[i] = e.ID
	}
	return all
}
