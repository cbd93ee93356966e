package protoserde_test

import (
	"fmt"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidegate/tidegate/serde/protoserde"
)

func ExampleOf() {
	s := protoserde.Of[*wrapperspb.StringValue]()
	b, err := s.Append(nil, wrapperspb.String("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := s.Decode(b)
	fmt.Println(len(b), v.GetValue(), err)
	// Output: 7 hello <nil>
}
