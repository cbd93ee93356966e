package kafka

import (
	"fmt"
	"log/slog"

	"github.com/IBM/sarama"
)

// Codec compresses batches.
type Codec = sarama.CompressionCodec

// ParseCodec reads a codec's name: "none" or "", "gzip", "snappy", "lz4",
// "zstd".
func ParseCodec(name string) (Codec, error) {
	var c Codec
	if name == "" {
		return sarama.CompressionNone, nil
	}
	if err := c.UnmarshalText([]byte(name)); err != nil {
		return 0, fmt.Errorf("no such codec: use none, gzip, snappy, lz4 or zstd")
	}
	return c, nil
}

// NewClientFrom is NewClient for callers that carry the *sarama.Config without
// importing sarama; nil is the default configuration.
func NewClientFrom(brokers []string, config any, log *slog.Logger) (*Client, error) {
	var conf *sarama.Config
	if config != nil {
		c, ok := config.(*sarama.Config)
		if !ok {
			return nil, fmt.Errorf("the client configuration is a %T: want a *sarama.Config", config)
		}
		conf = c
	}
	return NewClient(Config{Brokers: brokers, Sarama: conf, Logger: log})
}
