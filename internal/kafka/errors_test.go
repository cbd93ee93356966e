package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Every code of Kafka's up to 90 that a request of this package may answer has
// a row; those without are named here.
func TestTheTableOfCodesIsComplete(t *testing.T) {
	never := map[int16]string{
		11: "between brokers", 52: "", 57: "log dirs", 61: "delegation tokens", 62: "", 63: "", 64: "", 65: "", 66: "", 67: "",
		77: "between brokers", 80: "elections", 83: "", 84: "", 85: "reassignments", 86: "deleting offsets",
	}
	for code := int16(1); code <= 90; code++ {
		if _, ok := codes[sarama.KError(code)]; !ok {
			if _, known := never[code]; !known && kerr.ErrorForCode(code) != nil {
				t.Errorf("code %d (%v) has no row", code, kerr.ErrorForCode(code))
			}
		}
	}
	for k, info := range codes {
		if info.class == 0 {
			t.Errorf("code %d has no class", k)
		}
		// What Kafka's own client takes for retriable, we do, but for what we
		// know better.
		e := kerr.TypedErrorForCode(int16(k))
		differs := map[sarama.KError]string{
			sarama.ErrUnknown:                "not retriable there; the Writer repeats with the same sequence",
			sarama.ErrConcurrentTransactions: "the transactions' requests wait",
			sarama.ErrTopicAlreadyExists:     "another instance made it",
			sarama.ErrRebalanceInProgress:    "the membership handles it",
			sarama.ErrMemberIdRequired:       "the membership handles it", sarama.ErrDuplicateSequenceNumber: "success",
			sarama.ErrOperationNotAttempted: "", sarama.ErrReassignmentInProgress: "", sarama.ErrTransactionCoordinatorFenced: "",
			sarama.ErrBrokerNotAvailable: "", sarama.ErrInvalidMessageSize: "",
		}
		if _, ok := differs[k]; e != nil && !ok && e.Retriable != (info.class == ClassRetriable) {
			t.Errorf("code %d (%s): retriable %v, class %v", k, e.Message, e.Retriable, info.class)
		}
	}
}

func TestClassesAndDoubt(t *testing.T) {
	n := node{1, "h:1"}
	for _, c := range []struct {
		err   error
		class Class
		doubt bool
	}{
		{sarama.ErrProducerFenced, ClassFenced, false},
		{fmt.Errorf("x: %w", sarama.ErrRequestTimedOut), ClassRetriable, true},
		{sarama.KError(3000), ClassFatal, false},
		{&transportError{n, io.EOF}, ClassRetriable, true},
		{&transportError{n, &dialError{io.EOF}}, ClassRetriable, false},
		{&transportError{n, &refusedError{io.EOF}}, ClassInvalid, false},
		{&transportError{n, sarama.ErrNotConnected}, ClassRetriable, false},
		{&transportError{n, sarama.PacketEncodingError{Info: "x"}}, ClassInvalid, false},
		{&transportError{n, context.Canceled}, ClassRetriable, true},
		{notSent(&transportError{n, io.EOF}), ClassRetriable, false},
		{&OffsetOutOfRangeError{}, ClassInvalid, false},
		{errors.New("x"), ClassFatal, false},
	} {
		if got := Classify(c.err); got != c.class {
			t.Errorf("%v: class %v, want %v", c.err, got, c.class)
		}
		if got := InDoubt(c.err); got != c.doubt {
			t.Errorf("%v: in doubt %v, want %v", c.err, got, c.doubt)
		}
		e := newError("op", tp("t", 1), c.err)
		if Classify(e) != c.class || InDoubt(e) != c.doubt || !errors.Is(e, c.err) {
			t.Errorf("%v: wrapped %v, %v", c.err, Classify(e), InDoubt(e))
		}
	}
	e := &Error{Op: "produce", TP: tp("t", 1), Doubt: true, Err: io.EOF}
	if want := "produce t-1: EOF (it may have been carried out)"; e.Error() != want {
		t.Errorf("%q, want %q", e.Error(), want)
	}
	if s := fmt.Sprint(ClassFenced, Class(99)); s != "fenced unknown" {
		t.Errorf("%q", s)
	}
	if _, ok := Code(io.EOF); ok {
		t.Error("a network error has a code")
	}
}

func TestRetryStops(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	n := 0
	err := retry(ctx, retriable, func() error { n++; return sarama.ErrNotLeaderForPartition })
	if !errors.Is(err, sarama.ErrNotLeaderForPartition) || n < 2 {
		t.Errorf("%v after %d attempts", err, n)
	}
	n = 0
	if err := retry(context.Background(), retriable, func() error { n++; return sarama.ErrProducerFenced }); err == nil || n != 1 {
		t.Errorf("%v after %d attempts", err, n)
	}
	for i := range 40 {
		if d := backoff(i); d < backoffMin/2 || d > 2*backoffMax {
			t.Errorf("backoff %v", d)
		}
	}
}

func TestACLErrorReadsWell(t *testing.T) {
	err := WithACLs(fmt.Errorf("x: %w", sarama.ErrTopicAuthorizationFailed), "A", []string{"in"}, nil)
	if !strings.Contains(err.Error(), "\n  READ") || !errors.Is(err, sarama.ErrTopicAuthorizationFailed) {
		t.Errorf("%v", err)
	}
}
