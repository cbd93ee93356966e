package kafka

import "github.com/rcrowley/go-metrics"

// nilRegistry is a go-metrics registry whose metrics do nothing. sarama takes a
// lock and does arithmetic per request and topic in its metrics, and their
// ticker goroutine never ends. The package-wide switch UseNilMetrics would also
// switch off what the user measures elsewhere in the process.
type nilRegistry struct{}

func (nilRegistry) GetOrRegister(_ string, i any) any {
	switch i.(type) {
	case func() metrics.Meter, metrics.Meter:
		return metrics.NilMeter{}
	case func() metrics.Counter, metrics.Counter:
		return metrics.NilCounter{}
	case func() metrics.Histogram, metrics.Histogram:
		return metrics.NilHistogram{}
	case func() metrics.Gauge, metrics.Gauge:
		return metrics.NilGauge{}
	case func() metrics.Timer, metrics.Timer:
		return metrics.NilTimer{}
	}
	return i
}

func (nilRegistry) Each(func(string, any))            {}
func (nilRegistry) Get(string) any                    { return nil }
func (nilRegistry) Register(string, any) error        { return nil }
func (nilRegistry) RunHealthchecks()                  {}
func (nilRegistry) GetAll() map[string]map[string]any { return nil }
func (nilRegistry) Unregister(string)                 {}
func (nilRegistry) UnregisterAll()                    {}
