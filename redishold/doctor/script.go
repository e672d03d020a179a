package doctor

import _ "embed" // publish.lua

//go:embed publish.lua
var publishSource string
