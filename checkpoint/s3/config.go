package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tidegate/tidegate/checkpoint"
)

// Config says where the bucket is. Only Bucket is required.
type Config struct {
	Bucket string
	// Prefix comes before every key, as a folder: "team/checkpoints".
	Prefix string
	// Endpoint is the URL of a server other than Amazon's:
	// "http://127.0.0.1:9000". Default: from the environment
	// (AWS_ENDPOINT_URL_S3) or Amazon's.
	Endpoint string
	// Region; default from the environment or the shared configuration, and
	// us-east-1 where an endpoint is set and neither names one.
	Region string
	// PathStyle puts the bucket in the path instead of the host name, as most
	// servers other than Amazon's need.
	PathStyle bool
	// Credentials overrides the ordinary chain: environment, shared files, web
	// identity, container and instance roles.
	Credentials *Credentials
	// StallTimeout is how long a request may make no progress; default 30 s.
	StallTimeout time.Duration
	// MaxAttempts is how often one request is tried by the SDK; default 3.
	MaxAttempts int
	// MultipartFrom is the size in bytes from which objects are uploaded in
	// parts; default 32 MiB. PartSize is the size of a part; default 8 MiB, at
	// least 5. An upload in parts buffers about three parts.
	MultipartFrom, PartSize int64
}

// Credentials are fixed keys.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

const (
	minPartSize     = 5 << 20
	partConcurrency = 2
	// abortTimeout bounds the clean-up of a cancelled multipart upload.
	abortTimeout = 10 * time.Second
)

// New returns a store in a bucket. It reads the configuration of the
// environment but does not talk to the server: Check does.
func New(ctx context.Context, c Config) (*Store, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, &checkpoint.Error{Kind: checkpoint.KindInvalid, Op: "configure", Store: "s3://" + c.Bucket, Err: err}
	}
	loaded, err := config.LoadDefaultConfig(ctx, c.loadOptions()...)
	if err != nil {
		return nil, &checkpoint.Error{
			Kind: checkpoint.KindInvalid, Op: "configure", Store: "s3://" + c.Bucket, Err: err,
			Hint: "look at the AWS_ variables of the environment and at ~/.aws/config",
		}
	}
	if loaded.Region == "" {
		loaded.Region = "us-east-1"
	}
	custom := c.Endpoint != "" || loaded.BaseEndpoint != nil
	client := awss3.NewFromConfig(loaded, func(o *awss3.Options) {
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
		o.UsePathStyle = c.PathStyle
		if custom {
			// Trailing checksums are newer than many servers; references carry
			// a CRC of their own.
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
	checksums := client.Options().RequestChecksumCalculation
	return &Store{
		cfg:    c,
		client: client,
		parts: transfermanager.New(client, func(o *transfermanager.Options) {
			o.PartSizeBytes = c.PartSize
			o.MultipartUploadThreshold = c.PartSize // what is smaller does not come here
			o.Concurrency = partConcurrency
			o.FailTimeout = abortTimeout
			o.RequestChecksumCalculation = checksums
		}),
	}, nil
}

func (c Config) withDefaults() (Config, error) {
	c.Prefix = strings.Trim(c.Prefix, "/")
	if len(c.Bucket) < 3 {
		return c, errors.New("a bucket name is needed; it has at least three characters")
	}
	if c.Prefix != "" {
		if err := checkpoint.ValidKey(c.Prefix); err != nil {
			return c, fmt.Errorf("prefix: %w", err)
		}
		c.Prefix += "/"
	}
	if c.Endpoint != "" && !strings.HasPrefix(c.Endpoint, "http://") && !strings.HasPrefix(c.Endpoint, "https://") {
		return c, fmt.Errorf("endpoint %q: it must begin with http:// or https://", c.Endpoint)
	}
	if c.StallTimeout <= 0 {
		c.StallTimeout = 30 * time.Second
	}
	if c.MaxAttempts <= 0 {
		c.MaxAttempts = 3
	}
	if c.PartSize == 0 {
		c.PartSize = 8 << 20
	}
	if c.PartSize < minPartSize {
		return c, fmt.Errorf("part size %d: S3 takes parts of at least 5 MiB", c.PartSize)
	}
	if c.MultipartFrom <= 0 {
		c.MultipartFrom = max(32<<20, c.PartSize)
	}
	if c.MultipartFrom < c.PartSize {
		return c, fmt.Errorf("MultipartFrom %d is below PartSize %d: raise it", c.MultipartFrom, c.PartSize)
	}
	return c, nil
}

func (c Config) loadOptions() []func(*config.LoadOptions) error {
	opts := []func(*config.LoadOptions) error{
		config.WithHTTPClient(httpClient(c.StallTimeout)),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts = c.MaxAttempts
				o.MaxBackoff = 2 * time.Second
				// The SDK's quota makes requests fail at once while the server
				// has trouble; our callers bound retries by the checkpoint
				// timeout instead.
				o.RateLimiter = ratelimit.None
			})
		}),
	}
	if c.Region != "" {
		opts = append(opts, config.WithRegion(c.Region))
	}
	if k := c.Credentials; k != nil {
		opts = append(opts, config.WithCredentialsProvider(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: k.AccessKeyID, SecretAccessKey: k.SecretAccessKey, SessionToken: k.SessionToken, Source: "tidegate configuration"}, nil
		})))
	}
	return opts
}

func httpClient(stall time.Duration) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		dialer := &net.Dialer{Timeout: min(stall, 10*time.Second), KeepAlive: 30 * time.Second}
		t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &stallConn{Conn: c, timeout: stall}, nil
		}
		t.MaxIdleConnsPerHost = 32
		t.IdleConnTimeout = min(stall, 30*time.Second)
	})
}

// stallConn fails when nothing was read or written for the timeout. Both
// deadlines move on either: while a long body is sent, the transport already
// waits to read the response.
type stallConn struct {
	net.Conn
	timeout time.Duration
}

func (c *stallConn) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *stallConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
