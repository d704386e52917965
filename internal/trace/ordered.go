package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// MarshalJSON writes the variables as one object, in their order. Of a name
// that occurs twice the last value counts, as readers of JSON have it.
func (v Vars) MarshalJSON() ([]byte, error) {
	return marshalOrdered(len(v), func(i int) (string, Value) { return v[i].Name, v[i].Value })
}

// UnmarshalJSON reads an object and keeps its order. Of a name that occurs
// twice the last value counts.
func (v *Vars) UnmarshalJSON(data []byte) error {
	*v = nil
	at := map[string]int{}
	return unmarshalOrdered(data, func(name string, value Value) error {
		if i, seen := at[name]; seen {
			(*v)[i].Value = value
			return nil
		}
		at[name] = len(*v)
		*v = append(*v, Var{Name: name, Value: value})
		return nil
	})
}

// MarshalJSON writes the objects as one object keyed by reference number.
func (h Heap) MarshalJSON() ([]byte, error) {
	return marshalOrdered(len(h), func(i int) (string, Value) { return strconv.Itoa(h[i].Ref), h[i].Value })
}

// UnmarshalJSON reads an object whose keys are positive integers and keeps its
// order. Of a number that occurs twice the last value counts.
func (h *Heap) UnmarshalJSON(data []byte) error {
	*h = nil
	at := map[int]int{}
	return unmarshalOrdered(data, func(key string, value Value) error {
		ref, err := strconv.Atoi(key)
		if err != nil || ref < 1 || strconv.Itoa(ref) != key {
			return fmt.Errorf("heap: %q is not a reference number", key)
		}
		if i, seen := at[ref]; seen {
			(*h)[i].Value = value
			return nil
		}
		at[ref] = len(*h)
		*h = append(*h, HeapEntry{Ref: ref, Value: value})
		return nil
	})
}

func marshalOrdered(n int, at func(i int) (string, Value)) ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i := range n {
		key, value := at(i)
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		if len(value) == 0 {
			value = Value("null")
		}
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func unmarshalOrdered(data []byte, add func(key string, value Value) error) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil {
		return err
	}
	if open == nil {
		return nil // null: as absent
	}
	if open != json.Delim('{') {
		return errors.New("want an object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var value Value
		if err := dec.Decode(&value); err != nil {
			return err
		}
		// A key of an object is a string, or Token would have failed.
		if err := add(key.(string), value); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}
