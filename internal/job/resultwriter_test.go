package job_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/job"
)

// WriteResult writes the bytes that EncodeResult returns, whatever is in the output and wherever the pieces end.
func TestWriteResult(t *testing.T) {
	t.Parallel()
	for name, output := range map[string][2]string{
		"short":           {"1\n", ""},
		"long stdout":     {strings.Repeat("a line\n", 100_000), "the end"},
		"long stderr":     {"", strings.Repeat("x", 300_000)},
		"both":            {strings.Repeat("<&>\u2028\x00\"\\", 60_000), strings.Repeat("é", 200_001)},
		"wide characters": {"a" + strings.Repeat("😀", 200_000), "ab" + strings.Repeat("😀", 200_000)},
		"broken bytes":    {strings.Repeat("\xff\xe2\x82", 200_000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := fullResult()
			r.Stdout, r.Stderr = output[0], output[1]
			want, err := job.EncodeResult(r)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := job.WriteResult(&got, r); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got %d bytes, want the %d of EncodeResult", got.Len(), len(want))
			}
		})
	}
}

// refusing takes some bytes and then no more.
type refusing int

var errRefused = errors.New("no more")

func (w *refusing) Write(p []byte) (int, error) {
	if *w -= refusing(len(p)); *w < 0 {
		return 0, errRefused
	}
	return len(p), nil
}

func TestWriteResultStopsAtAnError(t *testing.T) {
	t.Parallel()
	r := fullResult()
	r.Stdout = strings.Repeat("x", 1<<20)
	for _, room := range []int{0, 100, 100_000} {
		w := refusing(room)
		if err := job.WriteResult(&w, r); !errors.Is(err, errRefused) {
			t.Errorf("room for %d bytes: got %v", room, err)
		}
	}
}

// BenchmarkWriteResult shows the memory that a result at the largest output takes to encode.
func BenchmarkWriteResult(b *testing.B) {
	r := fullResult()
	r.Stdout, r.Stderr = strings.Repeat("a line\n", 16_000_000/7), strings.Repeat("x", 16_000_000)
	var sink refusing = 1 << 60
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := job.EncodeResult(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pieces", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := job.WriteResult(&sink, r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
