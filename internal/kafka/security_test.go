package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
)

// secured starts a broker that wants TLS and a password.
func secured(t *testing.T) (*kfake.Cluster, *x509.CertPool) {
	t.Helper()
	https := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	t.Cleanup(https.Close)
	roots := x509.NewCertPool()
	roots.AddCert(https.Certificate())
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: https.TLS.Certificates}),
		kfake.EnableSASL(), kfake.Superuser("PLAIN", "me", "secret"), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster, roots
}

func TestTLSAndPasswordsOfTheUsersConfiguration(t *testing.T) {
	cluster, roots := secured(t)
	conf := sarama.NewConfig()
	conf.Net.TLS.Enable = true
	conf.Net.TLS.Config = &tls.Config{RootCAs: roots}
	conf.Net.SASL.Enable = true
	conf.Net.SASL.User, conf.Net.SASL.Password = "me", "secret"
	ctx, cancel := contextFor(20 * time.Second)
	defer cancel()
	ping := func() (*Client, error) {
		c, err := NewClient(Config{Brokers: cluster.ListenAddrs(), Guard: Loopback, Sarama: conf})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c, c.Admin().Ping(ctx)
	}
	c, err := ping()
	if err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, ctx: ctx, cluster: cluster, c: c}
	w := c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	put(w, p, tp("t", 0), Token{}, "a")
	e.must(p.Wait(ctx))
	if got := e.readAll(tp("t", 0), ReadCommitted); len(got) != 1 {
		t.Errorf("values %v", got)
	}
	if conf.Version == sarama.MaxVersion || conf.Net.Proxy.Enable {
		t.Error("the user's configuration was changed")
	}

	conf.Net.SASL.Password = "wrong"
	if _, err := ping(); err == nil { // Kafka says code 58, kfake hangs up
		t.Error("a wrong password was accepted")
	}
	conf.Net.SASL.Password = "secret"
	conf.Net.TLS.Config = &tls.Config{}
	if _, err := ping(); Classify(err) != ClassInvalid {
		t.Errorf("an unknown certificate: %v, class %v", err, Classify(err))
	}
}
