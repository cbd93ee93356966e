package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/IBM/sarama"
)

// Security is how a command line reaches a cluster that wants TLS or SASL. The
// zero value is neither. (An application hands over a sarama.Config instead.)
type Security struct {
	// TLS encrypts; CA, Cert and Key imply it. CA is a PEM file with the
	// authorities of the brokers' certificates, "" for the system's; Cert and Key
	// are the client's own, for brokers that want one.
	TLS           bool
	CA, Cert, Key string
	// User and Password are for SASL/PLAIN; "" for none.
	User, Password string
}

// Config returns the *sarama.Config for NewClientFrom, nil for the zero value. It
// reads the files. Errors say which is wrong.
func (s Security) Config() (any, error) {
	if s == (Security{}) {
		return nil, nil
	}
	c := sarama.NewConfig()
	if s.TLS || s.CA != "" || s.Cert != "" || s.Key != "" {
		var err error
		if c.Net.TLS.Config, err = s.tls(); err != nil {
			return nil, err
		}
		c.Net.TLS.Enable = true
	}
	switch {
	case s.User == "" && s.Password != "":
		return nil, errors.New("there is a SASL password, and no user: give both or none")
	case s.User != "" && s.Password == "":
		return nil, fmt.Errorf("no SASL password for user %q", s.User)
	case s.User != "":
		c.Net.SASL.Enable, c.Net.SASL.Mechanism = true, sarama.SASLTypePlaintext
		c.Net.SASL.User, c.Net.SASL.Password = s.User, s.Password
	}
	return c, nil
}

func (s Security) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, fmt.Errorf("read the authorities of the brokers' certificates: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", s.CA)
		}
	}
	if (s.Cert == "") != (s.Key == "") {
		return nil, errors.New("a client certificate needs its key, and the reverse: give both or none")
	}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client's certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
