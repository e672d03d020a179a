package plaintest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// cases run with each library.
func cases() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"PeerHolds":            peerHolds,
		"HoldfastHolds":        holdfastHolds,
		"HoldfastKeeps":        holdfastKeeps,
		"PeerDies":             peerDies,
		"HoldfastDies":         holdfastDies,
		"StrangerReleases":     strangerReleases,
		"PeerIsLate":           peerIsLate,
		"HoldfastIsLate":       holdfastIsLate,
		"PeerExtends":          peerExtends,
		"HoldfastRenews":       holdfastRenews,
		"HoldfastKeyDeleted":   holdfastKeyDeleted,
		"HoldfastKeyTaken":     holdfastKeyTaken,
		"HoldfastUnlocksTaken": holdfastUnlocksTaken,
		"PeerKeyDeleted":       peerKeyDeleted,
		"HoldfastBreaksPeer":   holdfastBreaksPeer,
		"NamesAreTheSame":      namesAreTheSame,
		"PrefixIsPartOfTheKey": prefixIsPartOfTheKey,
		"ValuesWithOddBytes":   valuesWithOddBytes,
		"SeveralNamesAtOnce":   severalNamesAtOnce,
		"Stress":               stress,
		"StressPolling":        stressPolling,
	}
}

func TestPlain(t *testing.T) {
	for _, f := range peers() {
		t.Run(f.library, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p := f.start(t, server.URL())
			t.Run("cases", func(t *testing.T) {
				adapters, all := dial.Adapters(), cases()
				for i, name := range slices.Sorted(maps.Keys(all)) {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						all[name](&scenario{t, f, p, server.Bind(t), adapters[i%len(adapters)], "stock:" + name})
					})
				}
			})
			wantNothingStays(t, server)
		})
	}
}

// wantNothingStays fails t if a key is left that docs/redis.md does not name:
// token counters, and what passes by itself.
func wantNothingStays(t *testing.T, server *redistest.Server) {
	t.Helper()
	for _, key := range server.Keys() {
		ttl := server.Int("PTTL", key)
		kind, _, _ := strings.Cut(strings.TrimPrefix(key, "app:"), "{")
		switch {
		case kind == "holdfast:token:":
		case redistest.Passing(kind) && ttl != -1:
		case ttl == -2: // it has gone since
		default:
			t.Errorf("key %q stayed, with a TTL of %d ms", key, ttl)
		}
	}
}
