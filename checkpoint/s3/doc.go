// Package s3 keeps checkpoints in a bucket of Amazon S3 or of a server that
// speaks its protocol: MinIO, versitygw, Ceph and others.
//
// What it needs of the server: strong consistency, put-if-absent
// (If-None-Match: *), and the rights to list the bucket and to read, write and
// delete objects below the prefix (on Amazon: s3:ListBucket, s3:GetObject,
// s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload; with
// s3:ListBucketMultipartUploads cleaning also finds uploads that a killed
// process left unfinished; without it, set a lifecycle rule that aborts
// incomplete multipart uploads). Check tries all of it. Do not let a lifecycle
// rule expire objects: tidegate knows which are needed, the rule does not. In a
// bucket with versioning, let a rule remove noncurrent versions.
//
// Large objects are uploaded in parts by the SDK's transfer manager; smaller
// ones in one request that reads the file and buffers nothing. Every attempt of
// a request fails when nothing moved on its connection for the stall timeout,
// so that a dead server is noticed however large the object. The SDK repeats a
// failed request a few times with jitter; the callers in package checkpoint
// repeat beyond that.
//
// A PutIfAbsent whose answer was lost and that the SDK repeated reports
// ErrExists though the object is our own: read and compare, as the Store's
// contract says.
package s3
