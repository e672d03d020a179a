package webdemo

import (
	_ "embed" // the scripts

	"github.com/holdfast-go/holdfast/redishold"
)

//go:embed scripts/keep.lua
var keepSource string

//go:embed scripts/open.lua
var openSource string

//go:embed scripts/read.lua
var readSource string

//go:embed scripts/sell.lua
var sellSource string

//go:embed scripts/close.lua
var closeSource string

func keepScript() *redishold.Script { return redishold.NewScript("keep", keepSource) }

// shopScripts are what a shop does in Redis, each a step of its own: between read
// and sell somebody else may come.
type shopScripts struct {
	open, read, sell, close, keep *redishold.Script
}

func loadShopScripts() shopScripts {
	return shopScripts{
		open:  redishold.NewScript("open", openSource),
		read:  redishold.NewScript("read", readSource),
		sell:  redishold.NewScript("sell", sellSource),
		close: redishold.NewScript("close", closeSource),
		keep:  keepScript(),
	}
}
