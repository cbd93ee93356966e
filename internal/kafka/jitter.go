package kafka

import (
	"math/rand/v2"
	"time"
)

// jitter returns d give or take a quarter, so that instances which failed
// together do not come back together.
func jitter(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1)
}
