package trace

import (
	"encoding/json"
	"strconv"
)

const (
	// maxValueDepth bounds how deep one value's JSON nests.
	maxValueDepth = 6
	// maxValueItems bounds the items of one shown container.
	maxValueItems = 64
	// maxString bounds a shown string, in bytes.
	maxString = 1024
)

// checkValue says whether v is a value of execution-trace/1 within its bounds.
// The first item of an array is its tag; the tag says what may follow.
func checkValue(v Value, depth int) error {
	if len(v) == 0 || depth > maxValueDepth {
		return errRecord
	}
	switch v[0] {
	case 'n', 't', 'f':
		return nil // valid JSON already: null, true, false
	case '"':
		_, err := text(v, maxString)
		return err
	case '[':
		return checkTagged(v, depth)
	case '{':
		return errRecord
	default:
		return checkNumber(v)
	}
}

func checkNumber(v Value) error {
	if _, err := integer(v, -maxSafe, maxSafe); err == nil {
		return nil
	}
	if _, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return errRecord // an integer that readers would round
	}
	if f, err := strconv.ParseFloat(string(v), 64); err != nil || f-f != 0 {
		return errRecord
	}
	return nil
}

func checkTagged(v Value, depth int) error {
	list, err := items(v)
	if err != nil || len(list) == 0 || len(list) > maxValueItems {
		return errRecord
	}
	tag, err := text(list[0], maxString)
	if err != nil {
		return err
	}
	rest := list[1:]
	switch tag {
	case "REF", "ELIDED":
		return checkShape(rest, isCount)
	case "STR", "BYTES":
		return checkShape(rest, isText, isCount)
	case "BIGINT":
		return checkShape(rest, isTextOrInteger)
	case "SPECIAL_FLOAT", "FUNCTION", "module":
		return checkShape(rest, isText)
	case "INSTANCE_PPRINT":
		return checkShape(rest, isText, isText)
	case "DEL":
		return checkShape(rest)
	case "LIST", "TUPLE", "SET":
		return checkAll(rest, depth)
	case "DICT":
		return checkPairs(rest, depth)
	case "INSTANCE":
		if len(rest) == 0 || !isText(rest[0]) {
			return errRecord
		}
		return checkPairs(rest[1:], depth)
	case "CLASS":
		if len(rest) < 2 || !isText(rest[0]) || !isTexts(rest[1]) {
			return errRecord
		}
		return checkPairs(rest[2:], depth)
	default:
		return errRecord
	}
}

func checkAll(list []json.RawMessage, depth int) error {
	for _, item := range list {
		if err := checkValue(item, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkPairs checks [key, value] items, of which the last may be an ELIDED.
func checkPairs(list []json.RawMessage, depth int) error {
	for i, item := range list {
		pair, err := items(item)
		if err != nil || len(pair) != 2 {
			return errRecord
		}
		if i == len(list)-1 && string(pair[0]) == `"ELIDED"` && isCount(pair[1]) {
			return nil
		}
		if err := checkAll(pair, depth); err != nil {
			return err
		}
	}
	return nil
}

// checkShape says whether there is one item for each check, and all pass.
func checkShape(list []json.RawMessage, checks ...func(json.RawMessage) bool) error {
	if len(list) != len(checks) {
		return errRecord
	}
	for i, check := range checks {
		if !check(list[i]) {
			return errRecord
		}
	}
	return nil
}

func isCount(raw json.RawMessage) bool {
	_, err := integer(raw, 0, maxSafe)
	return err == nil
}

func isText(raw json.RawMessage) bool {
	_, err := text(raw, maxString)
	return err == nil
}

func isTextOrInteger(raw json.RawMessage) bool {
	_, err := integer(raw, -maxSafe, maxSafe)
	return err == nil || isText(raw)
}

func isTexts(raw json.RawMessage) bool {
	list, err := items(raw)
	if err != nil || len(list) > maxValueItems {
		return false
	}
	for _, item := range list {
		if !isText(item) {
			return false
		}
	}
	return true
}
