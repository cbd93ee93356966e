package kafka

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/IBM/sarama"
)

func TestSecurityConfig(t *testing.T) {
	if c, err := (Security{}).Config(); c != nil || err != nil {
		t.Fatalf("neither: %v, %v", c, err)
	}
	c, err := Security{TLS: true, User: "u", Password: "p"}.Config()
	if err != nil {
		t.Fatal(err)
	}
	conf := c.(*sarama.Config)
	if err := conf.Validate(); err != nil {
		t.Fatal(err)
	}
	if !conf.Net.TLS.Enable || !conf.Net.SASL.Enable || conf.Net.SASL.Mechanism != sarama.SASLTypePlaintext || conf.Net.SASL.User != "u" || conf.Net.SASL.Password != "p" {
		t.Errorf("%+v", conf.Net)
	}
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]Security{
		"no user":         {Password: "p"},
		"no SASL":         {User: "u"},
		"holds no":        {CA: empty},
		"read the author": {CA: empty + ".gone"},
		"needs its key":   {Cert: empty},
		"client's cert":   {Cert: empty, Key: empty},
	} {
		if _, err := s.Config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
