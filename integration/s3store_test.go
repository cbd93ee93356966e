package integration

import (
	"testing"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/s3"
	"github.com/tidegate/tidegate/checkpoint/storetest"
	"github.com/tidegate/tidegate/integration/servers"
)

// TestStoreOnRealS3 runs the conformance suite of checkpoint stores on a real
// server, multipart uploads included.
func TestStoreOnRealS3(t *testing.T) {
	server, _ := servers.RequireS3(t)
	storetest.Run(t, func(t *testing.T) checkpoint.Store {
		bucket, err := server.NewBucket(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := s3.New(t.Context(), s3.Config{
			Bucket: bucket, Endpoint: server.Endpoint, Region: server.Region, PathStyle: true, Prefix: "p",
			Credentials: &s3.Credentials{AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey},
			PartSize:    5 << 20, MultipartFrom: 6 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, storetest.Options{Large: 12 << 20})
}
