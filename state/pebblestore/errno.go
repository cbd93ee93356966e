package pebblestore

import "syscall"

const (
	errAgain        = syscall.EAGAIN
	errTooManyFiles = syscall.EMFILE
)
