package avroserde_test

import (
	"fmt"

	"github.com/tidegate/tidegate/serde/avroserde"
)

// A value that an older version of the program wrote is read with today's type.
func ExampleSingleObject() {
	type Click struct {
		User string `avro:"user"`
	}
	type ClickNow struct {
		User string `avro:"user"`
		Page string `avro:"page"`
	}
	v1 := avroserde.MustParse(`{"type":"record","name":"Click","fields":[{"name":"user","type":"string"}]}`)
	v2 := avroserde.MustParse(`{"type":"record","name":"Click","fields":[
		{"name":"user","type":"string"}, {"name":"page","type":"string","default":"/"}]}`)

	old, err := avroserde.SingleObject[Click](v1).Append(nil, Click{User: "ann"})
	if err != nil {
		fmt.Println(err)
		return
	}
	now, err := avroserde.SingleObject[ClickNow](v2, v1).Decode(old)
	fmt.Println(now, err)
	// Output: {ann /} <nil>
}
