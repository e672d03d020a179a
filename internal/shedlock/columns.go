package shedlock

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/rows"
)

// Column is a column of the table, as the database describes it.
type Column struct {
	Name, Type string
	Needed     bool // an INSERT must have a value for the column
	Unique     bool // two rows cannot have the same value in the column
	Ambiguous  bool // the database treats some different values of the column as equal
}

// Unfit returns a *rows.UnfitError if a table with these columns cannot keep locks, else nil.
// The function `typed` gets a column of ShedLock and the type of that column. It returns a text
// that says what is wrong with the type, or "" if the type fits. The parameter `more` has texts
// about other faults of the table. The parameter `create` is the statement that makes a table
// without faults.
func Unfit(table string, columns []Column, typed func(column, is string) string, more []string, create string) error {
	wrong := more
	missing := []string{"name", "lock_until", "locked_at", "locked_by"}
	for _, c := range columns {
		at := slices.Index(missing, c.Name)
		switch {
		case at < 0 && c.Needed:
			wrong = append(wrong, fmt.Sprintf("column %s has no default, and ShedLock writes no value of it", c.Name))
		case at < 0:
			continue
		default:
			missing = slices.Delete(missing, at, at+1)
		}
		if fault := cmp.Or(typed(c.Name, c.Type), c.fault()); at >= 0 && fault != "" {
			wrong = append(wrong, c.Name+" "+fault)
		}
	}
	for _, name := range missing {
		wrong = append(wrong, "there is no column "+name+butFor(name, columns))
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return rows.Unfit("table %s cannot keep locks of ShedLock:\n  %s\nShedLock's documentation makes it with:\n%s", table, strings.Join(wrong, "\n  "), create)
}

// fault returns a text that says what is wrong with the column, or "" if nothing is wrong. It
// does not check the type of the column.
func (c *Column) fault() string {
	switch {
	case c.Ambiguous:
		return "has a collation that takes different names for the same"
	case c.Name == "name" && !c.Unique:
		return "has no primary key and no unique index, so a name could have two rows and two holders"
	}
	return ""
}

// butFor returns a text about the column whose name differs from the parameter `name` only in
// upper and lower case. It returns "" if there is no such column.
func butFor(name string, columns []Column) string {
	for _, c := range columns {
		if strings.EqualFold(c.Name, name) {
			return ", but " + c.Name + ", which is another one for ShedLock"
		}
	}
	return ""
}
