//go:build unix

package storecli

import (
	"database/sql"
	"regexp"
	"testing"
)

// RunShedLock tries what the tool does over the table of ShedLock, which the store keeps
// in the database of db: also beside a hold of Java.
func (c *Tool) RunShedLock(t *testing.T, db *sql.DB) {
	c.Start("run", "-n", "job", "--shell", `echo "$HOLDFAST_BACKEND $HOLDFAST_NAME $HOLDFAST_TOKEN"`).Want(0, c.store.Backend+" job 0")
	c.Start("status").Want(0, "layout      shedlock", "server      "+c.store.Name+" version ")
	c.Start("status", "--json").Want(0, `"layout":"shedlock"`)
	c.Start("doctor", "-v", "--fail-on", "never").Want(0, "ok       locks: a test lock works", "note     fencing", "no room for fencing tokens")
	c.Start("demo", "--url", c.URL()).Want(125, "has no fencing tokens in that layout")

	h := c.Hold("job")
	c.Start("run", "-n", "job", "--", "true").Want(75, `lock "job" is held by holdfast@`, "(maintenance)")
	c.Start("run", "-w", "1s", "job", "--", "true").Want(75, `lock "job" is held by holdfast@`)
	c.Start("run", "-n", "other", "--", "true").Want(0)
	c.Start("ls", "--json").Want(0, `"name":"job"`)
	c.Start("status", "job").Want(75, "job: held by holdfast@", "(maintenance)")
	c.Start("force-unlock", "job", "--reason", "it is stuck", "--token", "1").Want(64, "give --holder")
	c.Start("force-unlock", "job", "--reason", "it is stuck", "--holder", c.owner("job")).Want(0, "ended the hold of holdfast@")
	h.Want(79, `lock "job" lost`)
	c.Start("status", "job").Want(0, "job: free")

	if _, err := db.Exec("UPDATE shedlock SET lock_until = lock_until + INTERVAL '1' HOUR, locked_by = 'java1' WHERE name = 'job'"); err != nil {
		t.Fatal(err)
	}
	c.Start("run", "-n", "job", "--", "true").Want(75, `lock "job" is held by java1`)
	c.Start("ls", "job").Want(0, "java1")
	c.Start("force-unlock", "job", "--reason", "it is stuck", "--holder", "java1@1").Want(1, "nothing was done")
	c.Start("force-unlock", "job", "--reason", "it is stuck", "--holder", c.owner("job")).Want(0, "ended the hold of java1")
	c.Start("run", "-n", "job", "--", "true").Want(0)

	if _, err := db.Exec("ALTER TABLE shedlock DROP COLUMN locked_at"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run", "-w", "1m", "job", "--", "true"}, {"ls"}, {"status", "job"}, {"inspect", "job"}} {
		c.Start(args...).Want(77, "cannot keep locks of ShedLock", "there is no column locked_at")
	}
}

// owner returns the id of the holder of name, as inspect shows it.
func (c *Tool) owner(name string) string {
	c.t.Helper()
	p := c.Start("inspect", "--json", name)
	p.Want(0)
	found := regexp.MustCompile(`"owner":"([^"]+)"`).FindStringSubmatch(p.said.String())
	if found == nil {
		c.t.Fatalf("inspect names no owner: %s", p.said.String())
	}
	return found[1]
}
