package tidegate

import (
	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/runtime"
)

// WithSarama carries the client's settings: TLS, SASL, client id, network
// timeouts and protocol version. Producer and consumer settings are ignored:
// tidegate makes its own requests. The default is sarama.NewConfig().
func WithSarama(c *sarama.Config) Option {
	return func(rc *runtime.Config) { rc.Kafka.Sarama = c }
}
