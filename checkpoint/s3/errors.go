package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tidegate/tidegate/checkpoint"
)

// failed types an error of the SDK. nil stays nil, and the caller's own context
// error stays what it is.
func (s *Store) failed(ctx context.Context, op, key string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", op, key, context.Cause(ctx))
	}
	if e := (*checkpoint.Error)(nil); errors.As(err, &e) {
		return err
	}
	kind, hint := s.classify(err)
	return &checkpoint.Error{Kind: kind, Op: op, Store: s.String(), Key: key, Hint: hint, Err: err}
}

func (s *Store) classify(err error) (checkpoint.Kind, string) {
	if api := smithy.APIError(nil); errors.As(err, &api) {
		if kind, hint := s.byCode(api.ErrorCode()); kind != 0 {
			return kind, hint
		}
	}
	if resp := (*smithyhttp.ResponseError)(nil); errors.As(err, &resp) {
		return s.byStatus(resp.HTTPStatusCode())
	}
	if strings.Contains(err.Error(), "get identity") {
		return checkpoint.KindDenied, "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the process a role"
	}
	return checkpoint.KindUnavailable, "" // no answer: the network
}

func (s *Store) byCode(code string) (checkpoint.Kind, string) {
	switch code {
	case "NoSuchKey", "NoSuchUpload":
		return checkpoint.KindNotFound, ""
	case "NoSuchBucket":
		return checkpoint.KindInvalid, fmt.Sprintf("create the bucket %q, or correct the name in the configuration", s.cfg.Bucket)
	case "PreconditionFailed":
		return checkpoint.KindExists, ""
	case "ConditionalRequestConflict", "OperationAborted", "SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable":
		return checkpoint.KindUnavailable, ""
	case "AccessDenied", "AllAccessDisabled":
		return checkpoint.KindDenied, "the credentials lack a right: s3:ListBucket on the bucket; s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload on its objects"
	case "InvalidAccessKeyId", "XAdminUserNotFound", // the latter by versitygw, with status 404
		"SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return checkpoint.KindDenied, "the credentials are wrong or expired"
	case "RequestTimeTooSkewed":
		return checkpoint.KindDenied, "this machine's clock is wrong: set it"
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		return checkpoint.KindInvalid, fmt.Sprintf("the bucket %q is in another region: set the region", s.cfg.Bucket)
	case "NotImplemented", "MethodNotAllowed":
		return checkpoint.KindInvalid, "the server does not support this request"
	}
	return 0, ""
}

func (s *Store) byStatus(status int) (checkpoint.Kind, string) {
	switch {
	case status == http.StatusNotFound:
		return checkpoint.KindNotFound, ""
	case status == http.StatusPreconditionFailed:
		return checkpoint.KindExists, ""
	case status == http.StatusForbidden, status == http.StatusUnauthorized:
		return s.byCode("AccessDenied")
	case status == http.StatusConflict, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500 && status != http.StatusNotImplemented:
		return checkpoint.KindUnavailable, ""
	case status >= 300 && status < 400:
		return s.byCode("PermanentRedirect")
	case status >= 400:
		return checkpoint.KindInvalid, ""
	}
	return checkpoint.KindUnavailable, "" // no answer, or one that broke off
}
