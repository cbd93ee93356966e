package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/tidegate/tidegate/checkpoint"
)

// Store is a checkpoint.Store in a bucket.
type Store struct {
	cfg    Config
	client *awss3.Client
	parts  *transfermanager.Client
}

// String returns "s3://bucket/prefix", and the endpoint if one is configured.
func (s *Store) String() string {
	name := "s3://" + s.cfg.Bucket + "/" + s.cfg.Prefix
	if s.cfg.Endpoint != "" {
		name += " at " + s.cfg.Endpoint
	}
	return name
}

// Check lists the bucket and tries everything that checkpoints need of it.
func (s *Store) Check(ctx context.Context) error {
	_, err := s.client.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{
		Bucket: &s.cfg.Bucket, Prefix: aws.String(s.cfg.Prefix), MaxKeys: aws.Int32(1),
	})
	if err != nil {
		err = s.failed(ctx, "check", "", err)
		var e *checkpoint.Error
		if errors.As(err, &e) && e.Hint == "" {
			e.Hint = "is the server running, and are endpoint and region right?"
		}
		if errors.As(err, &e) && e.Kind == checkpoint.KindNotFound {
			e.Kind, e.Hint = s.byCode("NoSuchBucket")
		}
		return err
	}
	return checkpoint.Probe(ctx, s)
}

// Put stores an object; a large one in parts.
func (s *Store) Put(ctx context.Context, key string, src checkpoint.Source) error {
	if err := checkpoint.ValidKey(key); err != nil {
		return err
	}
	body := io.NewSectionReader(src.Reader, 0, src.Size)
	if src.Size >= s.cfg.MultipartFrom {
		_, err := s.parts.UploadObject(ctx, &transfermanager.UploadObjectInput{
			Bucket: &s.cfg.Bucket, Key: s.key(key), Body: body,
		})
		return s.failed(ctx, "put", key, err)
	}
	_, err := s.client.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: &s.cfg.Bucket, Key: s.key(key), Body: body, ContentLength: aws.Int64(src.Size),
	})
	return s.failed(ctx, "put", key, err)
}

// PutIfAbsent stores an object unless its key exists.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if err := checkpoint.ValidKey(key); err != nil {
		return err
	}
	_, err := s.client.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: &s.cfg.Bucket, Key: s.key(key), Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		IfNoneMatch: aws.String("*"),
	})
	return s.failed(ctx, "put if absent", key, err)
}

// Open reads an object as one stream.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := checkpoint.ValidKey(key); err != nil {
		return nil, err
	}
	if length == 0 {
		return s.openNothing(ctx, key)
	}
	in := &awss3.GetObjectInput{Bucket: &s.cfg.Bucket, Key: s.key(key)}
	switch {
	case length > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", offset))
	}
	out, err := s.client.GetObject(ctx, in)
	if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorCode() == "InvalidRange" {
		return io.NopCloser(strings.NewReader("")), nil // the object ends before
	}
	if err != nil {
		return nil, s.failed(ctx, "get", key, err)
	}
	return &body{ReadCloser: out.Body, ctx: ctx, store: s, key: key}, nil
}

// openNothing only looks whether the object exists: there is no range of no
// bytes.
func (s *Store) openNothing(ctx context.Context, key string) (io.ReadCloser, error) {
	_, err := s.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &s.cfg.Bucket, Key: s.key(key)})
	if err != nil {
		return nil, s.failed(ctx, "get", key, err)
	}
	return io.NopCloser(strings.NewReader("")), nil
}

// body types the errors of a connection that breaks in the middle.
type body struct {
	io.ReadCloser
	ctx   context.Context // of the Open whose stream this is
	store *Store
	key   string
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.store.failed(b.ctx, "get", b.key, err)
	}
	return n, err
}

// List yields objects in key order.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[checkpoint.Object, error] {
	return func(yield func(checkpoint.Object, error) bool) {
		if err := checkpoint.ValidPrefix(prefix); err != nil {
			yield(checkpoint.Object{}, err)
			return
		}
		pages := awss3.NewListObjectsV2Paginator(s.client, &awss3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, Prefix: s.key(prefix)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(checkpoint.Object{}, s.failed(ctx, "list", prefix, err))
				return
			}
			for _, o := range page.Contents {
				key, ok := s.own(o.Key)
				if ok && !yield(checkpoint.Object{Key: key, Size: aws.ToInt64(o.Size)}, nil) {
					return
				}
			}
		}
	}
}

// Delete removes objects, up to 1000 in one request.
func (s *Store) Delete(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := checkpoint.ValidKey(key); err != nil {
			return err
		}
	}
	for len(keys) > 0 {
		batch := keys[:min(len(keys), 1000)]
		keys = keys[len(batch):]
		in := &awss3.DeleteObjectsInput{Bucket: &s.cfg.Bucket, Delete: &types.Delete{Quiet: aws.Bool(true)}}
		for _, key := range batch {
			in.Delete.Objects = append(in.Delete.Objects, types.ObjectIdentifier{Key: s.key(key)})
		}
		out, err := s.client.DeleteObjects(ctx, in)
		if err != nil {
			return s.failed(ctx, "delete", batch[0], err)
		}
		for _, e := range out.Errors {
			if code := aws.ToString(e.Code); code != "NoSuchKey" {
				key, _ := s.own(e.Key)
				return s.failed(ctx, "delete", key, &smithy.GenericAPIError{Code: code, Message: aws.ToString(e.Message)})
			}
		}
	}
	return nil
}

// ListIncomplete yields unfinished multipart uploads. Where the right or the
// function is missing it yields none: see the package comment.
func (s *Store) ListIncomplete(ctx context.Context, prefix string) iter.Seq2[checkpoint.Upload, error] {
	return func(yield func(checkpoint.Upload, error) bool) {
		pages := awss3.NewListMultipartUploadsPaginator(s.client, &awss3.ListMultipartUploadsInput{Bucket: &s.cfg.Bucket, Prefix: s.key(prefix)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				if err = s.failed(ctx, "list uploads", prefix, err); !errors.Is(err, checkpoint.ErrDenied) && !errors.Is(err, checkpoint.ErrInvalid) {
					yield(checkpoint.Upload{}, err)
				}
				return
			}
			for _, u := range page.Uploads {
				key, ok := s.own(u.Key)
				if ok && strings.HasPrefix(key, prefix) && !yield(checkpoint.Upload{Key: key, ID: aws.ToString(u.UploadId)}, nil) {
					return
				}
			}
		}
	}
}

// AbortIncomplete discards an unfinished multipart upload.
func (s *Store) AbortIncomplete(ctx context.Context, u checkpoint.Upload) error {
	if err := checkpoint.ValidKey(u.Key); err != nil {
		return err
	}
	_, err := s.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &s.cfg.Bucket, Key: s.key(u.Key), UploadId: &u.ID})
	if err = s.failed(ctx, "abort upload", u.Key, err); errors.Is(err, checkpoint.ErrNotFound) {
		return nil
	}
	return err
}

func (s *Store) key(key string) *string { return aws.String(s.cfg.Prefix + key) }

// own turns a key of the bucket into one of the store; false for what is not
// the store's, as a "folder" object that a console made.
func (s *Store) own(key *string) (string, bool) {
	k, ok := strings.CutPrefix(aws.ToString(key), s.cfg.Prefix)
	return k, ok && checkpoint.ValidKey(k) == nil
}
