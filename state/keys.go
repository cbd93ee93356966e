package state

// EachKey calls yield for the keys whose serialised form is in [from, to), in that
// form's order, downwards if reverse, until it returns false or an error. It
// decodes no values; else it is as Scan, and yield may change the store.
func (s *KVStore[K, V]) EachKey(from, to []byte, reverse bool, yield func(K) (bool, error)) (err error) {
	if err := s.t.flush(); err != nil {
		return err
	}
	it := s.t.kv.Scan(from, to, reverse)
	defer func() {
		if e := it.Close(); err == nil && e != nil {
			err = s.t.fail("scan", nil, e)
		}
	}()
	for it.Next() {
		k, err := s.ks.Decode(it.Key())
		if err != nil {
			return s.t.fail("decode", it.Key(), err)
		}
		if more, err := yield(k); err != nil || !more {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return s.t.fail("scan", nil, err)
	}
	return nil
}
