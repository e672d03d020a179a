package mysqlhold

import "testing"

// The statements tryFree and releaseAlone wait for a row that another transaction has locked. So a
// name that was found taken a moment ago does not get them, also if the table has forgotten that
// others want the name.
func TestTakenNameIsNotAlone(t *testing.T) {
	var table table
	table.alone.Granted("job")
	if !table.isAlone("job") {
		t.Fatal("a name that nobody else wants does not get the narrow statements")
	}
	table.taken.Add("job", struct{}{}, takenFor)
	if table.isAlone("job") {
		t.Error("a name that was found taken gets the narrow statements")
	}
	if table.isAlone("other") {
		t.Error("a name whose row may not exist gets the narrow statements")
	}
}
