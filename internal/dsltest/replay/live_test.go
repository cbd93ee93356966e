package replay_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
)

// At the live edge a person is joined at once: while nothing comes on the side of
// the auctions, which said that it has read everything, and while auctions of
// others come all the time.
func TestLiveEdgeDoesNotWait(t *testing.T) {
	bothModes(t, func(t *testing.T, c *cluster) {
		joined := make(chan string, 100)
		app := c.app("a", func(person, _ string) { joined <- person }, tidegate.WithIdleTimeout(time.Hour))
		stop := start(t, app)
		defer stop()
		now := func() int64 { return time.Now().UnixMilli() }
		const sellers = 20
		for i := range sellers {
			c.produce("auctions", []testkit.Message{message(fmt.Sprint("a", i), fmt.Sprint("p", i, " "), now())})
		}
		// join sends a person and says how long it takes to meet its auction.
		join := func(i int) time.Duration {
			begun, p := time.Now(), fmt.Sprint("p", i)
			c.produce("persons", []testkit.Message{message(p, p, now())})
			select {
			case got := <-joined:
				require.Equal(t, p, got)
			case <-time.After(30 * time.Second):
				t.Fatalf("person %d waits", i)
			}
			return time.Since(begun)
		}
		join(0) // once everything is set up
		median := func(from, to int) time.Duration {
			var took []time.Duration
			for i := from; i < to; i++ {
				took = append(took, join(i))
			}
			slices.Sort(took)
			t.Log(took)
			return took[len(took)/2]
		}
		quiet := median(1, sellers/2)

		end, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for i := 1000; ; i++ {
				select {
				case <-end:
					return
				default:
				}
				m := message(fmt.Sprint("a", i), fmt.Sprint("p", i, " "), now())
				if err := c.client.Produce(t.Context(), "auctions", []testkit.Message{m}); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		busy := median(sellers/2, sellers)
		close(end)
		<-ended
		if quiet > 150*time.Millisecond || busy > 250*time.Millisecond {
			t.Errorf("a person waits %v while it is quiet, %v while auctions come", quiet, busy)
		}
	})
}
