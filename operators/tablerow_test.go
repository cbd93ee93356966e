package operators_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// Rows have the bytes of the table's own serdes, and records that the table never
// took make none.
func TestTableRow(t *testing.T) {
	row := operators.TableRow(serde.JSON[map[string]int](), serde.Nullable(serde.Int64()))
	one := append(make([]byte, 7), 1)
	for name, c := range map[string]struct {
		r          record.Raw
		key, value []byte
		ok         bool
	}{
		"another spelling of the key": {record.Raw{Key: []byte(`{ "b":2, "a" : 1 }`), Value: one, Timestamp: 258}, []byte(`{"a":1,"b":2}`), append([]byte{0, 0, 0, 0, 0, 0, 1, 2}, one...), true},
		"a tombstone":                 {record.Raw{Key: []byte(`{}`), Timestamp: 1}, []byte(`{}`), nil, true},
		"a null key":                  {record.Raw{Value: one}, nil, nil, false},
		"a key that is not readable":  {record.Raw{Key: []byte(`{`), Value: one}, nil, nil, false},
		"a value that is not":         {record.Raw{Key: []byte(`{}`), Value: one[:3]}, nil, nil, false},
		"no time":                     {record.Raw{Key: []byte(`{}`), Value: one, Timestamp: -1}, nil, nil, false},
		"no time that can be written": {record.Raw{Key: []byte(`{}`), Value: one, Timestamp: math.MaxInt64}, nil, nil, false},
	} {
		key, value, ok := row(&c.r)
		if ok != c.ok || ok && (!bytes.Equal(key, c.key) || !bytes.Equal(value, c.value) || (value == nil) != (c.value == nil)) {
			t.Errorf("%s: key %q, value %q, %v", name, key, value, ok)
		}
	}
}
