package shedlock

import (
	"strconv"
	"strings"
)

// Dialect has the expressions that differ between databases. A word in braces in one of them
// stands for another expression.
//
// Unlocked is a JOIN with the row of the table whose name is the parameter ?. The JOIN finds no
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

// Statements are the statements of one table, except the one of Dialect.Read. The folders
// testdata/shedlock of pghold and mysqlhold have each of them as it is sent.
type Statements struct {
	Try     string
	Insert  string
	Renew   string
	Release string
	Force   string
	Page    string
}

// Statements returns the statements of the table.
func (d *Dialect) Statements() Statements {
	return Statements{
		Try:     d.write(tryStatement, 0),
		Insert:  d.write(strings.ReplaceAll(d.Insert, "{row}", insertStatement), 0),
		Renew:   d.write(renewStatement, 0),
		Release: d.write(releaseStatement, 0),
		Force:   d.write(forceStatement, 0),
		Page:    d.write(pageStatement, 0),
	}
}

// Read returns the statement that reads the rows of n names. The names are its parameters.
func (d *Dialect) Read(n int) string { return d.write(readStatement, n) }

// The statements. A lease is a millisecond longer than the TTL, because columns may keep
// milliseconds only. An assignment that reads a column stands before the assignment that
// changes this column, because MySQL executes assignments from left to right. Columns may be
// NULL: a name whose lock_until is NULL is free, though ShedLock itself never takes it. Each
// update assigns locked_at, because a table of MySQL may change that column in each update that
// does not assign it.
const (
	// tryStatement has these parameters, from its line locked_at on, with a semicolon after each
	// assignment: `by`; `by`, `us`, `us`; `by`; `name`, `name`, `by`. If Dialect.Unlocked is set,
	// its JOIN has the first `name`, which comes before all other parameters. Then {named} is left
	// out, so that only the JOIN finds the row: a server that can find a row in two ways may
	// wait for the lock of this row in the second way.
	tryStatement = `UPDATE {table}{unlocked}
SET
	locked_at = CASE
		WHEN {ours} AND lock_until > {now} THEN locked_at
		ELSE {now} END,
	lock_until = CASE
		WHEN {ours} AND lock_until > {now} THEN GREATEST(lock_until, {later})
		ELSE {later} END,
	locked_by = ?
WHERE {named}{exact} AND (lock_until IS NULL OR lock_until <= {now} OR {ours})`

	// insertStatement has the parameter `name`. It makes the row of a name. The name is free
	// then, and the next try takes it.
	insertStatement = `INTO {table} (name, lock_until, locked_at, locked_by)
VALUES (?, TIMESTAMP '2000-01-01 00:00:00', TIMESTAMP '2000-01-01 00:00:00', 'holdfast')`

	// renewStatement has the parameters `us`, `name`, `by`.
	renewStatement = `UPDATE {table} SET lock_until = GREATEST(lock_until, {later}), locked_at = locked_at
WHERE name = ? AND {ours} AND lock_until > {now}`

	// releaseStatement has the parameters `us`, `by`, `name`, `by`.
	releaseStatement = `UPDATE {table} SET lock_until = {later}, locked_by = ?, locked_at = locked_at
WHERE name = ? AND {ours} AND lock_until > {now}`

	// forceStatement has the parameters `by`, `name`, `by`, `since`.
	forceStatement = `UPDATE {table} SET lock_until = {now}, locked_by = ?, locked_at = locked_at
WHERE name = ? AND {ours} AND {since} = ? AND lock_until > {now}`

	columns = `name, COALESCE(locked_by, ''),
	{held},
	{rest},
	{since}`

	readStatement = `SELECT ` + columns + `
FROM {table} WHERE name IN ({names})`

	// pageStatement has the parameters `from`, `after`, `most`.
	pageStatement = `SELECT ` + columns + `
FROM {table} WHERE {key} >= ? AND {key} > ? ORDER BY {key} LIMIT ?`
)

// write replaces each word in braces in a statement by an expression of the Dialect. The parameter
// `names` is the length of the list {names}, in a statement that has such a list.
func (d *Dialect) write(statement string, names int) string {
	const epoch = "TIMESTAMP '1970-01-01 00:00:00'"
	by := d.bytes("COALESCE(locked_by, '')")
	key := d.bytes("name")
	unlocked := ""
	named := "name = ? AND "
	if d.Unlocked != "" {
		unlocked = "\n" + d.Unlocked
		named = ""
	}
	statement = strings.NewReplacer(
		"{unlocked}", unlocked,
		"{named}", named,
		"{exact}", key+" = ?",
		"{key}", key,
		"{ours}", by+" = ?",
		"{now}", d.Now,
		"{later}", "("+strings.ReplaceAll(d.Later, "{from}", d.Now)+")",
		"{held}", d.micros("COALESCE(locked_at, "+d.Now+")", d.Now),
		"{rest}", d.micros(d.Now, "COALESCE(lock_until, "+d.Now+")"),
		"{since}", d.micros(epoch, "COALESCE(locked_at, "+epoch+")"),
		"{names}", strings.TrimSuffix(strings.Repeat("?, ", names), ", "),
	).Replace(statement)
	if d.Ordinal {
		statement = numbered(statement)
	}
	// The name of the table is the last, because it may have a question mark.
	return strings.ReplaceAll(statement, "{table}", d.Table)
}

// bytes returns the expression for a text that is compared and sorted by bytes.
func (d *Dialect) bytes(text string) string {
	return strings.ReplaceAll(d.Bytes, "{column}", text)
}

// micros returns the expression for the microseconds between two times.
func (d *Dialect) micros(from, to string) string {
	return strings.NewReplacer("{from}", from, "{to}", to).Replace(d.Micros)
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
