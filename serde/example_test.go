package serde_test

import (
	"fmt"
	"time"

	"github.com/tidegate/tidegate/serde"
)

func ExampleUUID() {
	b, err := serde.UUID[[16]byte]().Append(nil, [16]byte{0x12, 0x34})
	fmt.Println(string(b), err)
	// Output: 12340000-0000-0000-0000-000000000000 <nil>
}

func ExampleList() {
	b, err := serde.List(serde.Time()).Append(nil, []time.Time{time.UnixMilli(1)})
	fmt.Printf("%v %v\n", b, err)
	// Output: [0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 1] <nil>
}
