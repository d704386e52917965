package trace

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	t.Parallel()
	objects := Objects{
		1:  Value(`["LIST",1,2,["REF",2]]`),
		2:  Value(`["TUPLE","a"]`),
		3:  Value(`["DICT",["x",1],[["REF",2],["REF",1]],["ELIDED",5]]`),
		4:  Value(`["INSTANCE","Point",["x",1.5],["y",["REF",4]]]`),
		5:  Value(`["LIST",["REF",5]]`),
		6:  Value(`["SET"]`),
		7:  Value(`["SET",1]`),
		8:  Value(`["INSTANCE","Empty"]`),
		9:  Value(`["LIST",["REF",10]]`),
		10: Value(`["LIST",["REF",11]]`),
		11: Value(`["LIST",["REF",12]]`),
		12: Value(`["LIST",1]`),
		13: Value(`["FUNCTION","outer.<locals>.inner"]`),
		14: Value(`["CLASS","Point",[]]`),
		15: Value(`["TUPLE"]`),
		17: Value(`["REF",17]`),
		16: Value(`["LIST",["LIST",["LIST",["LIST",["LIST",["LIST",["LIST",["LIST",1]]]]]]]]`),
	}
	tests := map[string]struct {
		value string
		want  string
	}{
		"none":                {`null`, "None"},
		"nothing":             {``, "None"},
		"true":                {`true`, "True"},
		"false":               {`false`, "False"},
		"int":                 {`-12`, "-12"},
		"float":               {`4.0`, "4.0"},
		"special float":       {`["SPECIAL_FLOAT","-Infinity"]`, "-inf"},
		"string":              {`"it's"`, `"it's"`},
		"escapes":             {`"a\n\t\u001b[31m\u202e"`, `'a\n\t\x1b[31m\u202e'`},
		"long string":         {`["STR","abc",90]`, `'abc'… (90 characters)`},
		"bytes":               {`["BYTES","00ff41",3]`, `b'\x00\xffA'`},
		"long bytes":          {`["BYTES","41",9]`, `b'A'… (9 bytes)`},
		"big int":             {`["BIGINT","12345678901234567890"]`, "12345678901234567890"},
		"huge int":            {`["BIGINT",900]`, "<int of 900 bits>"},
		"list":                {`["REF",1]`, `[1, 2, ('a',)]`},
		"dict":                {`["REF",3]`, `{'x': 1, ('a',): [1, 2, ('a',)], … 5 more}`},
		"instance":            {`["REF",4]`, "<Point x=1.5, y=<Point>>"},
		"instance, empty":     {`["REF",8]`, "<Empty>"},
		"cycle":               {`["REF",5]`, "[[…]]"},
		"empty set":           {`["REF",6]`, "set()"},
		"set":                 {`["REF",7]`, "{1}"},
		"empty tuple":         {`["REF",15]`, "()"},
		"reference to itself": {`["REF",17]`, "…"},
		"deep":                {`["REF",9]`, "[[[[…]]]]"},
		"deep, no reference":  {`["REF",16]`, "[[[[[[[[…]]]]]]]]"},
		"function":            {`["REF",13]`, "<function outer.<locals>.inner>"},
		"class":               {`["REF",14]`, "<class Point>"},
		"module":              {`["MODULE","sys"]`, "<module sys>"},
		"unknown reference":   {`["REF",99]`, "…"},
		"unknown tag":         {`["WHAT","a",1]`, "<WHAT a 1>"},
		"no tag":              {`[1,2]`, "<?>"},
		"object":              {`{"a":1}`, "<?>"},
		"empty array":         {`[]`, "<?>"},
		"not JSON":            {`[`, "<?>"},
		"deleted":             {`["DEL"]`, "(deleted)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := objects.Text(Value(tt.value), 200); got != tt.want {
				t.Errorf("Text(%s) = %q, want %q", tt.value, got, tt.want)
			}
		})
	}
}

func TestTextIsBounded(t *testing.T) {
	t.Parallel()
	objects := Objects{1: Value(`["LIST"` + strings.Repeat(`,"ééé"`, 1000) + `]`)}
	for _, limit := range []int{0, 1, 2, 7, 40} {
		got := objects.Text(Value(`["REF",1]`), limit)
		if n := utf8.RuneCountInString(got); n > max(limit, 1) {
			t.Errorf("Text with limit %d has %d characters: %q", limit, n, got)
		}
	}
}

func TestReaches(t *testing.T) {
	t.Parallel()
	objects := Objects{1: Value(`["LIST",["REF",2]]`), 2: Value(`["DICT",["a",["REF",3]]]`), 3: Value(`["LIST",["REF",1]]`)}
	tests := map[string]struct {
		value string
		ref   int
		want  bool
	}{
		"itself":        {`["REF",1]`, 1, true},
		"two levels":    {`["REF",1]`, 3, true},
		"not there":     {`["REF",1]`, 9, false},
		"cycle":         {`["REF",3]`, 9, false},
		"no reference":  {`"REF"`, 1, false},
		"unknown first": {`["REF",7]`, 1, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := objects.Reaches(Value(tt.value), tt.ref); got != tt.want {
				t.Errorf("Reaches(%s, %d) = %v, want %v", tt.value, tt.ref, got, tt.want)
			}
		})
	}
}

// FuzzText checks that whatever a trace holds, its text is short and harmless.
func FuzzText(f *testing.F) {
	for _, seed := range []string{`["REF",1]`, `["LIST",["REF",2]]`, `["STR","\u001b",9]`, `["DICT",[1,2]]`, `{`, `["BYTES","zz"]`, `["INSTANCE"]`, `[[]]`} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, value, entry string) {
		objects := Objects{1: Value(entry), 2: Value(value)}
		got := objects.Text(Value(value), 50)
		if utf8.RuneCountInString(got) > 50 {
			t.Fatalf("more than 50 characters: %q", got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) && r != utf8.RuneError {
				t.Fatalf("not printable: %q", got)
			}
		}
		objects.Reaches(Value(value), 3)
	})
}

// TestSplitLines counts lines as CPython does.
func TestSplitLines(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		"":                   {""},
		"a":                  {"a"},
		"a\n":                {"a"},
		"a\r\nb\rc\n":        {"a", "b", "c"},
		"\ufeffa\n\n":        {"a", ""},
		"a\x0cb\u2028c\x85d": {"a\x0cb\u2028c\x85d"},
	} {
		if got := SplitLines(source); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", source, got, want)
		}
	}
}
