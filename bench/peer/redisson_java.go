package peer

import (
	"errors"
	"os"
	"path/filepath"
)

// redissonJava is Redisson itself, by a Java program that does the whole work as measuring
// processes in Go do it: internal/e2e/interop/java, class Bench. Its locks are renewed. It does
// not count allocations.
func redissonJava() Spec {
	return Spec{
		Name: "redisson-java", Client: "redisson", Role: Other, Full: true, Can: []Ability{Waits, Renews},
		Works: append(own(), "one-16", "one-4x16"), Compiles: true,
		Program: func(t Target) ([]string, error) {
			if t.Redisson == "" {
				return nil, errors.New("there is no Redisson; .ci/interop-java builds it in $HOLDFAST_INTEROP")
			}
			path := filepath.Join(t.Redisson, "peer.jar") + string(os.PathListSeparator) + filepath.Join(t.Redisson, "lib", "*")
			return []string{
				"java", "-Xmx512m", "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
				"-cp", path, "holdfast.peer.Bench",
			}, nil
		},
	}
}
