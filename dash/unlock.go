package dash

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	longReason = 500
	longForm   = 64 << 10
	soon       = 10 * time.Second // if a lease ends within this time, waiting is better than forcing
)

const notShown = "This dashboard does not show a lock with that name."

// unlockData is the page on which a lock is forced.
type unlockData struct {
	Name, Name64, Word, Back string
	Holds                    []forceData
	Trouble                  string
}

// forceData is a hold, as it was when the page was made.
type forceData struct {
	holdData
	Owner64 string
	Soon    bool
	Typed   string // the reason that the user typed in a form that was not complete
}

// unlock shows the page on which operators force a lock. If the request is a POST with a
// complete form, unlock forces the lock.
func (d *Dashboard) unlock(w http.ResponseWriter, r *http.Request) {
	if !d.mayUnlock(r) {
		d.refuse(w, r, http.StatusForbidden, "You may not end holds by force on this dashboard.", "")
		return
	}
	f := force{name: r.URL.Query().Get("name")}
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, longForm)
		var err error
		if f, err = parseForce(r); err != nil {
			d.refuse(w, r, http.StatusBadRequest, err.Error(), "")
			return
		}
	}
	switch {
	case !d.shown(f.name):
		d.refuse(w, r, http.StatusNotFound, notShown, "")
	case r.Method != http.MethodPost:
		d.askUnlock(w, r, f, "")
	case f.typed != confirmation(f.name):
		d.askUnlock(w, r, f, "The typed name is not the name of the lock. Nothing was changed.")
	case f.reason == "":
		d.askUnlock(w, r, f, "The reason is missing. Nothing was changed.")
	default:
		d.force(w, r, f)
	}
}

// force is a request to end exactly one hold.
type force struct {
	name, owner, typed, reason string
	holds                      int
	token                      uint64
}

func parseForce(r *http.Request) (f force, err error) {
	if err := r.ParseForm(); err != nil {
		return f, errors.New("the form is too large or cannot be read; load the page again")
	}
	name, nameErr := base64.RawURLEncoding.DecodeString(r.PostForm.Get("name"))
	owner, ownerErr := base64.RawURLEncoding.DecodeString(r.PostForm.Get("owner"))
	holds, holdsErr := strconv.Atoi(r.PostForm.Get("holds"))
	token, tokenErr := strconv.ParseUint(r.PostForm.Get("token"), 10, 64)
	if err := errors.Join(nameErr, ownerErr, holdsErr, tokenErr); err != nil {
		return f, errors.New("the form cannot be read; load the page again")
	}
	reason := printable(strings.TrimSpace(r.PostForm.Get("reason")))
	return force{
		name: string(name), owner: string(owner), holds: holds, token: token,
		typed: trimmed(r.PostForm.Get("confirm")), reason: short(reason, longReason),
	}, nil
}

// askUnlock shows the present holders of f.name, with a form for each. If the user has sent a
// form that was not complete, `trouble` says what was missing, and the form for f.owner has
// the reason that the user has typed.
func (d *Dashboard) askUnlock(w http.ResponseWriter, r *http.Request, f force, trouble string) {
	status := http.StatusOK
	if trouble != "" {
		status = http.StatusUnprocessableEntity
		d.refused(r, f.name, trouble)
	}
	if _, err := d.detail(r.Context(), f.name); err != nil {
		d.fail(w, r, http.StatusServiceUnavailable, "The store does not answer: "+errorText(err))
		return
	}
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	data := unlockData{
		Name: short(printable(f.name), 2*longName), Name64: encode(f.name), Word: confirmation(f.name),
		Back: lockLink(f.name), Trouble: trouble,
	}
	e, _ := d.table.Get(f.name)
	for _, h := range e.Holds {
		hold := forceData{holdData: holdOf(e, h), Owner64: encode(h.Owner), Soon: h.Remaining >= 0 && h.Remaining < soon}
		if h.Owner == f.owner {
			hold.Typed = f.reason
		}
		data.Holds = append(data.Holds, hold)
	}
	d.writePage(w, r, status, content{title: "Force unlock", page: "unlock", data: data}, frameData{Page: "unlock"})
}

// is reports whether h is the hold that f asks to end. A token of 0 means that the token is not
// known yet. It counts as equal to every token.
func (f force) is(h admin.Hold) bool {
	return h.Owner == f.owner && h.Holds == f.holds && (h.Token == f.token || h.Token == 0 || f.token == 0)
}

// force ends the hold that f describes, if this hold is still as the page showed it.
func (d *Dashboard) force(w http.ResponseWriter, r *http.Request, f force) {
	shown, err := d.detail(r.Context(), f.name)
	if err != nil {
		d.refuse(w, r, http.StatusServiceUnavailable, "The store does not answer: "+errorText(err), f.name)
		return
	}
	why, err := d.why(r, f), driver.ErrGone
	i := slices.IndexFunc(shown.Holds, f.is)
	if i >= 0 {
		err = d.console.ForceUnlock(r.Context(), f.name, shown.Holds[i].Holder, why)
	}
	switch {
	case errors.Is(err, driver.ErrGone):
		d.refuse(w, r, http.StatusConflict, "The lock has changed since the page was loaded. Nothing was done. Load the page again, and check the hold.", f.name)
		return
	case err != nil:
		d.refuse(w, r, http.StatusBadGateway, "The result is unknown: "+errorText(err), f.name)
		return
	}
	h := shown.Holds[i]
	if d.options.Forced != nil {
		d.options.Forced(f.name, h.Holder, why)
	}
	d.options.Logger.WarnContext(r.Context(), "force-unlocked", "lock", f.name, "holder", h.Owner, "token", h.Token, "count", h.Holds,
		"reason", f.reason, "user", d.user(r), "address", address(r))
	d.table.Report(admin.Entry{Type: admin.EntryForced, At: time.Now(), Name: f.name, Owner: h.Owner, Token: h.Token, Reason: why})
	_, _ = d.detail(r.Context(), f.name) // so that the next page shows the change
	// Not http.Redirect, which makes the address absolute: a proxy may have mapped the base
	// to another path.
	w.Header().Set("Location", lockLink(f.name))
	w.WriteHeader(http.StatusSeeOther)
}

// why returns the reason that the holder of the lock gets: the text and the name of the
// operator.
func (d *Dashboard) why(r *http.Request, f force) string {
	if user := d.user(r); user != "" {
		return f.reason + " (" + user + ", on the dashboard)"
	}
	return f.reason + " (on the dashboard)"
}

// refuse answers a request that was not carried out. If the request was an attempt to force a
// lock, refuse also logs the attempt.
func (d *Dashboard) refuse(w http.ResponseWriter, r *http.Request, status int, message, name string) {
	if r.Method == http.MethodPost {
		d.refused(r, name, message)
	}
	d.fail(w, r, status, message)
}

// refused logs an attempt to force a lock that was not carried out.
func (d *Dashboard) refused(r *http.Request, name, why string) {
	d.options.Logger.WarnContext(r.Context(), "force-unlock refused", "lock", name, "reason", why, "user", d.user(r), "address", address(r))
}
