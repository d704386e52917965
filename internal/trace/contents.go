package trace

import (
	"slices"
	"strconv"
)

// sequences are the tags of contents that are plain lists of values.
var sequences = map[byte]string{tagList: "LIST", tagTuple: "TUPLE", tagSet: "SET"}

// appendContent reads what an object shows and appends its JSON.
func appendContent(dst []byte, r *byteReader) []byte {
	tag := r.byte()
	switch tag {
	case tagList, tagTuple, tagSet:
		return appendSequence(dst, tag, r)
	case tagDict:
		return appendPairs(append(dst, `["DICT"`...), r)
	case tagInstance:
		return appendInstance(dst, r)
	case tagClass:
		dst = appendText(append(dst, `["CLASS",`...), r.text(maxString))
		dst = append(dst, ",["...)
		n := contentCount(r)
		for i := range n {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendText(dst, r.text(maxString))
		}
		return appendPairs(append(dst, ']'), r)
	case tagRange:
		return appendRange(dst, r)
	case tagRaw:
		name := r.text(maxString)
		kind := r.byte()
		data := r.next(int(r.number(maxString)))
		if r.bad {
			return dst
		}
		return appendRaw(dst, name, kind, data)
	}
	r.bad = true
	return dst
}

// appendInstance reads a class's name, the items of the container that it
// inherits from, if any, and attributes.
func appendInstance(dst []byte, r *byteReader) []byte {
	dst = appendText(append(dst, `["INSTANCE",`...), r.text(maxString))
	switch tag := r.byte(); tag {
	case 0:
	case tagList, tagTuple, tagSet:
		dst = append(appendSequence(append(dst, `,["items",`...), tag, r), ']')
	case tagDict:
		dst = append(appendPairs(append(dst, `,["items",["DICT"`...), r), ']')
	default:
		r.bad = true
	}
	return appendPairs(dst, r)
}

// appendSequence reads the items of a list, tuple or set.
func appendSequence(dst []byte, tag byte, r *byteReader) []byte {
	dst = append(append(append(dst, `["`...), sequences[tag]...), '"')
	n := contentCount(r)
	for range n {
		dst = appendValue(append(dst, ','), r)
	}
	return appendLeftOut(dst, r)
}

// contentCount reads how many items follow.
func contentCount(r *byteReader) int {
	n := int(r.byte())
	if n > maxContent {
		r.bad = true
		return 0
	}
	return n
}

// appendPairs appends [key, value] items and closes the list.
func appendPairs(dst []byte, r *byteReader) []byte {
	n := contentCount(r)
	for range n {
		dst = appendValue(append(dst, ",["...), r)
		dst = append(appendValue(append(dst, ','), r), ']')
	}
	return appendLeftOut(dst, r)
}

// appendLeftOut appends how many items are not shown, and closes the list.
func appendLeftOut(dst []byte, r *byteReader) []byte {
	if n := r.number(maxSafe); n > 0 {
		dst = strconv.AppendUint(append(dst, `,["ELIDED",`...), n, 10)
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

// appendRange words a range as Python does.
func appendRange(dst []byte, r *byteReader) []byte {
	n := contentCount(r)
	parts := make([]string, 0, maxContent)
	for range n {
		value := string(appendValue(nil, r))
		if digits := len(value); digits > 13 && value[0] == '[' { // ["BIGINT","…"] or ["BIGINT",bits]
			value = value[10 : digits-1]
			value = string(slices.DeleteFunc([]byte(value), func(c byte) bool { return c == '"' }))
		}
		parts = append(parts, value)
	}
	r.number(0)
	if r.bad || len(parts) != 3 {
		r.bad = true
		return dst
	}
	text := "range(" + parts[0] + ", " + parts[1]
	if parts[2] != "1" {
		text += ", " + parts[2]
	}
	return append(appendText(append(dst, `["INSTANCE_PPRINT","range",`...), text+")"), ']')
}
