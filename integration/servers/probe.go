package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Probe says in one line which servers tests would use, and makes what takes long ready:
// the broker's image or jars, the S3 server's binary. It starts nothing. An error that
// wraps [ErrUnavailable] means that tests on a real broker will be skipped.
func Probe(ctx context.Context) (string, error) {
	storage := "s3 by versitygw"
	if endpoint := os.Getenv("TIDEGATE_S3_ENDPOINT"); endpoint != "" {
		storage = "s3 running at " + endpoint
	} else if _, err := versitygw(ctx); err != nil {
		return "", err
	}
	kafka, err := probeKafka(ctx)
	if err != nil {
		return "", err
	}
	return kafka + "; " + storage, nil
}

func probeKafka(ctx context.Context) (string, error) {
	from := Source(os.Getenv("TIDEGATE_KAFKA"))
	if brokers := os.Getenv("TIDEGATE_KAFKA_BROKERS"); brokers != "" && (from == Auto || from == Running) {
		return "kafka running at " + brokers, nil
	}
	var errs []error
	if from == Auto || from == Docker {
		err := dockerAvailable(ctx)
		if err == nil {
			return "kafka by docker, " + KafkaImage, nil
		}
		errs = append(errs, err)
	}
	if from == Auto || from == Java {
		libs, err := javaAvailable(ctx)
		if err == nil {
			return "kafka by java, jars in " + libs, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("no kafka: %w", errors.Join(errs...))
}
