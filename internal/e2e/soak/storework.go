package main

import "github.com/holdfast-go/holdfast/driver"

// kinds are the workloads that a store has.
func kinds(c driver.Caps) map[string]bool {
	return map[string]bool{mutexes: true, chains: true, bursts: true, lockAlls: true, fairs: c.Fair, readWrites: c.Shared, semaphores: c.Permits}
}
