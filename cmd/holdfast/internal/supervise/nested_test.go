package supervise

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

func TestInTheWay(t *testing.T) {
	hold := func(owner string, mode driver.Mode) admin.Hold {
		return admin.Hold{Holder: admin.Holder{Owner: owner}, Mode: mode}
	}
	for name, test := range map[string]struct {
		kind   admin.Kind
		holds  []admin.Hold
		shared bool
		want   bool
	}{
		"ours":                    {admin.KindMutex, []admin.Hold{hold("a", driver.Exclusive)}, false, true},
		"another's":               {admin.KindMutex, []admin.Hold{hold("x", driver.Exclusive)}, false, false},
		"a permit left to others": {admin.KindSemaphore, []admin.Hold{hold("a", driver.Permit), hold("x", driver.Permit)}, false, false},
		"all permits":             {admin.KindSemaphore, []admin.Hold{hold("a", driver.Permit), hold("b", driver.Permit)}, false, true},
		"we and others read":      {admin.KindReadWrite, []admin.Hold{hold("x", driver.Shared), hold("b", driver.Shared)}, false, true},
		"a writer waits":          {admin.KindReadWrite, []admin.Hold{hold("a", driver.Shared)}, true, false},
		"we write":                {admin.KindReadWrite, []admin.Hold{hold("b", driver.Exclusive)}, true, true},
	} {
		r := admin.Record{Name: "job", Kind: test.kind, Holds: test.holds, Holders: len(test.holds)}
		err := inTheWay(r, strings.Fields("a b"), test.shared)
		if (err != nil) != test.want {
			t.Errorf("%s: got %v, want that it waits for itself: %v", name, err, test.want)
		}
	}
}
