package shedlock

import (
	"strconv"
	"strings"
)

// Dialect has the expressions that differ between databases. The method `write` replaces each
// word in braces by an expression.
//
// Unlocked is a JOIN with the row of {table} whose name is the parameter ?. The JOIN finds no
// row while another transaction has locked that row. Unlocked is "" for a database in which a
// refused try does not wait for a lock.
type Dialect struct {
	Table    string // the name of the table, quoted
	Unlocked string // a JOIN, or ""
	Now      string // the time of the server in UTC, without a zone
	Later    string // the time that is ? microseconds after {from}
	Micros   string // the microseconds from {from} to {to}
	Bytes    string // an expression for the text {column} that is compared and sorted by bytes
	Insert   string // a statement with INSERT {row} that does nothing if the row exists
	Ordinal  bool   // parameters are $1, $2, … in place of ?
}

// The statements. A lease is a millisecond longer than the TTL, because columns may keep
// milliseconds only. An assignment that reads a column stands before the assignment that
// changes this column, because MySQL executes assignments from left to right. Columns may be
// NULL: a name whose lock_until is NULL is free, though ShedLock itself never takes it. Each
// update assigns locked_at, because a table of MySQL may change that column in each update that
// does not assign it.
const (
	// tryStatement has these parameters, from its second line on, with a semicolon after each
	// line: `by`; `by`, `us`, `us`; `by`; `name`, `name`, `by`. If Dialect.Unlocked is set, its
	// JOIN has the first `name`, which comes before all other parameters. Then {named} is left
	// out, so that only the JOIN finds the row: a server that can find a row in two ways may
	// wait for the lock of this row in the second way.
	tryStatement = `UPDATE {table} {unlocked} SET
	locked_at = CASE WHEN {ours} AND lock_until > {now} THEN locked_at ELSE {now} END,
	lock_until = CASE WHEN {ours} AND lock_until > {now} THEN GREATEST(lock_until, {later}) ELSE {later} END,
	locked_by = ?
WHERE {named} AND {exact} AND (lock_until IS NULL OR lock_until <= {now} OR {ours})`

	// insertStatement has the parameter `name`. It makes the row of a name. The name is free
	// then, and the next try takes it.
	insertStatement = `INTO {table} (name, lock_until, locked_at, locked_by)
VALUES (?, TIMESTAMP '2000-01-01 00:00:00', TIMESTAMP '2000-01-01 00:00:00', 'holdfast')`

	// renewStatement has the parameters `us`, `name`, `by`.
	renewStatement = `UPDATE {table} SET lock_until = GREATEST(lock_until, {later}), locked_at = locked_at WHERE name = ? AND {ours} AND lock_until > {now}`

	// releaseStatement has the parameters `us`, `by`, `name`, `by`.
	releaseStatement = `UPDATE {table} SET lock_until = {later}, locked_by = ?, locked_at = locked_at WHERE name = ? AND {ours} AND lock_until > {now}`

	// forceStatement has the parameters `by`, `name`, `by`, `since`.
	forceStatement = `UPDATE {table} SET lock_until = {now}, locked_by = ?, locked_at = locked_at WHERE name = ? AND {ours} AND {since} = ? AND lock_until > {now}`

	columns = `name, COALESCE(locked_by, ''), {held}, {rest}, {since}`

	readStatement = `SELECT ` + columns + ` FROM {table} WHERE name IN ({names})`

	// pageStatement has the parameters `from`, `after`, `most`.
	pageStatement = `SELECT ` + columns + ` FROM {table} WHERE {key} >= ? AND {key} > ? ORDER BY {key} LIMIT ?`
)

const epoch = "TIMESTAMP '1970-01-01 00:00:00'"

// write replaces the words in braces in a statement. The list {names} becomes a list of n
// parameters.
func (d *Dialect) write(statement string, n int) string {
	fill := func(text, what, with string) string { return strings.ReplaceAll(text, what, with) }
	later := "(" + fill(d.Later, "{from}", "{now}") + ")"
	micros := func(from, to string) string { return fill(fill(d.Micros, "{from}", from), "{to}", to) }
	since := func(absent string) string { return "COALESCE(locked_at, " + absent + ")" }
	by, key := fill(d.Bytes, "{column}", "COALESCE(locked_by, '')"), fill(d.Bytes, "{column}", "name")
	statement = strings.NewReplacer(
		"{ours}", by+" = ?", "{exact}", key+" = ?", "{key}", key,
		"{later}", later,
		"{held}", micros(since("{now}"), "{now}"), "{rest}", micros("{now}", "COALESCE(lock_until, {now})"),
		"{since}", micros(epoch, since(epoch)),
	).Replace(statement)
	statement = strings.NewReplacer("{now}", d.Now, "{names}", strings.Repeat("?, ", n-1)+"?").Replace(statement)
	if d.Ordinal {
		statement = numbered(statement)
	}
	return fill(statement, "{table}", d.Table) // last: the name of the table may have a question mark
}

// numbered replaces the question marks by $1, $2 and so on.
func numbered(statement string) string {
	var b strings.Builder
	for i, part := range strings.Split(statement, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// statements are the statements without a list of names.
type statements struct{ try, insert, renew, release, force, page string }

func (d *Dialect) statements() statements {
	named := "name = ? AND "
	if d.Unlocked != "" {
		named = ""
	}
	return statements{
		try: d.write(strings.NewReplacer("{unlocked}", d.Unlocked, "{named} AND ", named).Replace(tryStatement), 1), insert: d.write(strings.ReplaceAll(d.Insert, "{row}", insertStatement), 1), renew: d.write(renewStatement, 1),
		release: d.write(releaseStatement, 1), force: d.write(forceStatement, 1), page: d.write(pageStatement, 1),
	}
}
