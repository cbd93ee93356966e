package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/tidegate/tidegate/serde"
)

const contentType = "application/vnd.schemaregistry.v1+json"

// maxAnswer bounds an answer of the registry.
const maxAnswer = 16 << 20

// Error is an answer of the registry that refuses the request.
type Error struct {
	// Status is the HTTP status, Code the registry's own number, 0 when the
	// answer has none.
	Status, Code int
	Message      string
	// URL is what was asked for.
	URL string
}

// Error says what was asked, what was answered, and what to do where that is
// known.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s answered %d", e.URL, e.Status)
	if e.Code != 0 && e.Code != e.Status {
		text += fmt.Sprintf(" (%d)", e.Code)
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += ": check WithBasicAuth and the rights of the user"
	case http.StatusConflict:
		text += ": the schema is not compatible with the versions before it: change the schema, or the subject's compatibility level"
	}
	return text
}

// Unwrap returns serde.ErrUnavailable for everything but an unknown schema.
func (e *Error) Unwrap() error {
	if e.Status == http.StatusNotFound {
		return nil
	}
	return serde.ErrUnavailable
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", serde.ErrUnavailable, err) }

// caller makes requests.
type caller struct {
	config *config
	bases  []*url.URL
}

// do makes a request until it succeeds, is refused, or the attempts are used up.
func (c *caller) do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	pause := c.config.pause
	for n := 1; ; n++ {
		base := c.bases[(n-1)%len(c.bases)]
		err := c.try(ctx, method, base.String()+path, body, out)
		if err == nil || !transient(err) {
			return err
		}
		if n == c.config.attempts {
			if n > 1 {
				err = fmt.Errorf("%w (%d attempts)", err, n)
			}
			return err
		}
		// Half of the pause is random: instances that lost the registry at one
		// moment do not return at one moment.
		t := time.NewTimer(pause/2 + rand.N(pause/2+1)) //nolint:gosec // spreads load
		select {
		case <-ctx.Done():
			t.Stop()
			return unavailable(fmt.Errorf("%w, after %w", ctx.Err(), err))
		case <-t.C:
		}
		pause = min(2*pause, maxPause)
	}
}

// transient reports whether the same request may succeed later.
func transient(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests
	}
	var n *networkError
	return errors.As(err, &n)
}

// networkError is a request that got no answer.
type networkError struct{ err error }

func (e *networkError) Error() string   { return e.err.Error() }
func (e *networkError) Unwrap() []error { return []error{serde.ErrUnavailable, e.err} }

func (c *caller) try(ctx context.Context, method, to string, body []byte, out any) error {
	attempt, cancel := context.WithTimeout(ctx, c.config.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(attempt, method, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = c.config.header.Clone()
	req.Header.Set("Accept", contentType)
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if c.config.basicAuth {
		req.SetBasicAuth(c.config.user, c.config.password)
	}
	resp, err := c.config.client.Do(req)
	if err != nil {
		return c.noAnswer(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.noAnswer(ctx, err)
	}
	if len(answer) > maxAnswer {
		return unavailable(fmt.Errorf("%s answered with more than %d bytes", to, maxAnswer))
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return refusal(to, resp.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return unavailable(fmt.Errorf("%s answered with something that is not a schema registry's: %w", to, err))
	}
	return nil
}

// noAnswer: with the caller's context at its end no further attempt makes sense.
func (c *caller) noAnswer(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return unavailable(err)
	}
	return &networkError{err}
}

func refusal(to string, status int, answer []byte) error {
	var e struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}
	// Proxies answer in HTML: then the status has to do.
	if json.Unmarshal(answer, &e) != nil {
		e.Code, e.Message = 0, ""
	}
	return &Error{Status: status, Code: e.Code, Message: e.Message, URL: to}
}
