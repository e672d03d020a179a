package dash

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	longReason = 500
	longForm   = 64 << 10
	soon       = 10 * time.Second // for a lease that ends within this time, waiting is better
)

// unlockData is the page on which a lock is forced.
type unlockData struct {
	Name, Word, Back string
	Holds            []forceData
	Trouble          string
}

// forceData is a hold, as it was when the page was made.
type forceData struct {
	holdData
	Name64, Owner64 string
	Renewing        string
	Soon            bool
	Typed           string // the reason of a form that was not complete
}

// unlock shows the page on which a lock is forced, and forces it.
func (d *Dashboard) unlock(w http.ResponseWriter, r *http.Request) {
	if !d.mayUnlock(r) {
		d.refuse(w, r, http.StatusForbidden, "Forcing locks is not allowed here.", "")
		return
	}
	leave, ok := d.join()
	if !ok {
		http.Error(w, "closing", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	if r.Method != http.MethodPost {
		d.askUnlock(w, r, force{name: r.URL.Query().Get("name")}, http.StatusOK, "")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, longForm)
	f, err := parseForce(r)
	switch {
	case err != nil:
		d.refuse(w, r, http.StatusBadRequest, err.Error(), "")
	case !d.shown(f.name):
		d.refuse(w, r, http.StatusNotFound, "This dashboard does not show a lock with that name.", "")
	case f.typed != confirmation(f.name):
		d.askAgain(w, r, f, "The typed name is not the name of the lock. Nothing was changed.")
	case f.reason == "":
		d.askAgain(w, r, f, "A reason is needed. Nothing was changed.")
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
		return f, errors.New("the form is too large or broken")
	}
	name, nameErr := base64.RawURLEncoding.DecodeString(r.PostForm.Get("name"))
	owner, ownerErr := base64.RawURLEncoding.DecodeString(r.PostForm.Get("owner"))
	holds, holdsErr := strconv.Atoi(r.PostForm.Get("holds"))
	token, tokenErr := strconv.ParseUint(r.PostForm.Get("token"), 10, 64)
	if err := errors.Join(nameErr, ownerErr, holdsErr, tokenErr); err != nil {
		return f, errors.New("the form is broken")
	}
	reason := printable(strings.TrimSpace(r.PostForm.Get("reason")))
	return force{
		name: string(name), owner: string(owner), holds: holds, token: token,
		typed: trimmed(r.PostForm.Get("confirm")), reason: short(reason, longReason),
	}, nil
}

// askUnlock shows the present holders of f.name, with a form for each. The form for f.owner
// has the reason that the user has typed.
func (d *Dashboard) askUnlock(w http.ResponseWriter, r *http.Request, f force, status int, trouble string) {
	name := f.name
	if !d.shown(name) {
		d.fail(w, r, http.StatusNotFound, "This dashboard does not show a lock with that name.")
		return
	}
	_, err := d.detail(r.Context(), name)
	if err != nil {
		d.fail(w, r, http.StatusServiceUnavailable, "The store does not answer: "+short(printable(err.Error()), 300))
		return
	}
	data := unlockData{Name: short(printable(name), 2*longName), Word: confirmation(name), Back: lockLink(name), Trouble: trouble}
	if e, ok := d.table.Get(name); ok {
		for _, h := range e.Holds {
			hold := forceData{
				holdData: holdOf(e, h, false), Name64: base64.RawURLEncoding.EncodeToString([]byte(name)),
				Owner64: base64.RawURLEncoding.EncodeToString([]byte(h.Owner)), Soon: h.Remaining >= 0 && h.Remaining < soon,
				Renewing: "no renewal yet",
			}
			if h.Owner == f.owner {
				hold.Typed = f.reason
			}
			switch n := h.Renewals; {
			case n > 0:
				hold.Renewing = fmt.Sprintf("yes, %d renewals: the holder is alive", n)
			case h.UnknownEnd:
				hold.Renewing = "unknown: the store does not show renewals"
			}
			data.Holds = append(data.Holds, hold)
		}
	}
	c := content{title: "Force unlock", page: "unlock", data: data}
	d.writeStill(w, r, status, c)
}

// askAgain answers a form that is not complete, and logs the attempt.
func (d *Dashboard) askAgain(w http.ResponseWriter, r *http.Request, f force, trouble string) {
	d.refused(r, f.name, trouble)
	d.askUnlock(w, r, f, http.StatusUnprocessableEntity, trouble)
}

// force ends the hold that f describes, if it is still as it was shown.
func (d *Dashboard) force(w http.ResponseWriter, r *http.Request, f force) {
	shown, err := d.detail(r.Context(), f.name)
	if err != nil {
		d.refuse(w, r, http.StatusServiceUnavailable, "The store does not answer: "+short(printable(err.Error()), 300), f.name)
		return
	}
	const changed = "The lock has changed since the page was loaded. Nothing was done. Check again."
	for _, h := range shown.Holds {
		if h.Owner != f.owner || h.Holds != f.holds || h.Token != f.token && h.Token != 0 && f.token != 0 { // 0: not reported yet
			continue
		}
		err := d.console.ForceUnlock(r.Context(), f.name, h.Holder, d.why(r, f))
		switch {
		case errors.Is(err, driver.ErrGone):
			d.refuse(w, r, http.StatusConflict, changed, f.name)
		case err != nil:
			d.refuse(w, r, http.StatusBadGateway, "The result is unknown: "+short(printable(err.Error()), 300), f.name)
		default:
			if d.options.Forced != nil {
				d.options.Forced(f.name, h.Holder, d.why(r, f))
			}
			d.forced(r, f, h)
			// Not http.Redirect, which makes it absolute: a proxy may have mapped the
			// base to another path.
			w.Header().Set("Location", lockLink(f.name))
			w.WriteHeader(http.StatusSeeOther)
		}
		return
	}
	d.refuse(w, r, http.StatusConflict, changed, f.name)
}

// why returns the reason that the holder gets.
func (d *Dashboard) why(r *http.Request, f force) string {
	if user := d.user(r); user != "" {
		return f.reason + " (" + user + ", on the dashboard)"
	}
	return f.reason + " (on the dashboard)"
}

// forced records that a lock was forced.
func (d *Dashboard) forced(r *http.Request, f force, h admin.Hold) {
	d.log.WarnContext(r.Context(), "force-unlocked", "lock", f.name, "holder", h.Owner, "token", h.Token, "count", h.Holds,
		"reason", f.reason, "user", d.user(r), "address", address(r))
	d.table.Report(admin.Entry{Type: admin.EntryForced, At: time.Now(), Name: f.name, Owner: h.Owner, Token: h.Token, Reason: d.why(r, f)})
	d.refreshName(r.Context(), f.name)
}

// refuse answers an attempt that was not carried out, and logs it.
func (d *Dashboard) refuse(w http.ResponseWriter, r *http.Request, status int, message, name string) {
	if r.Method == http.MethodPost {
		d.refused(r, name, message)
	}
	d.fail(w, r, status, message)
}

// refused logs an attempt that was not carried out.
func (d *Dashboard) refused(r *http.Request, name, why string) {
	d.log.WarnContext(r.Context(), "force-unlock refused", "lock", name, "reason", why, "user", d.user(r), "address", address(r))
}
