package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"time"
)

// Bounds of the memory that large bodies and answers take. Rates and connections do not bound it: a hundred requests of 16 MiB
// may come in a second, and a result that is stored in 1 MiB may be 64 MiB.
const (
	// maxMemory is what bodies that are being taken in and answers that are being sent may hold, all together.
	maxMemory = 512 << 20
	// smallBytes is the size up to which nobody counts.
	smallBytes = 64 << 10
	// benchTimeout is how long a request waits for its turn at the bench.
	benchTimeout = 20 * time.Second
)

// newBench bounds how many large documents are read and converted at a time: that takes many times their size, and
// more at a time than there are processors are no faster.
func newBench() chan struct{} { return make(chan struct{}, max(2, runtime.GOMAXPROCS(0))) }

func busy() *Problem {
	return problem(http.StatusServiceUnavailable, "busy", "Too much at once", "Other large requests are under way; try again.").after(retryLimited)
}

// hold takes memory for the caller of a request.
func (a *API) hold(r *http.Request, n int64) (release func(), err error) {
	if n <= smallBytes {
		return func() {}, nil
	}
	name := facts(r).identity.Name
	if !a.memory.take(name, n) {
		return nil, busy()
	}
	return func() { a.memory.give(name, n) }, nil
}

// readBody reads a whole body of at most limit bytes, within bodyTimeout. release is to be called when it is no longer needed, also
// after an error.
func (a *API) readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), err error) {
	size := r.ContentLength
	switch {
	case size > limit:
		return nil, func() {}, &http.MaxBytesError{Limit: limit}
	case size < 0:
		size = limit
	}
	if release, err = a.hold(r, size); err != nil {
		return nil, func() {}, err
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // A test's writer has no deadlines.
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_ = control.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	if err != nil && !errors.As(err, &large) {
		err = problem(http.StatusBadRequest, "body", "The body cannot be read", "The body ended early or came too slowly.")
	}
	return body, release, err
}

// answerLarge writes a JSON document that takes much memory to make.
func (a *API) answerLarge(w http.ResponseWriter, r *http.Request, status int, build func() ([]byte, error)) error {
	body, encoding, err := a.atBench(r, build)
	if err != nil {
		return err
	}
	release, err := a.hold(r, int64(len(body)))
	if err != nil {
		return err
	}
	defer release()
	send(w, status, "application/json", body, encoding)
	return nil
}

// atBench makes a document, and packs it, when it is its turn.
func (a *API) atBench(r *http.Request, build func() ([]byte, error)) (body []byte, encoding string, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), benchTimeout)
	defer cancel()
	select {
	case a.bench <- struct{}{}:
		defer func() { <-a.bench }()
	case <-ctx.Done():
		if r.Context().Err() != nil {
			return nil, "", r.Context().Err()
		}
		return nil, "", busy()
	}
	if body, err = build(); err != nil {
		return nil, "", err
	}
	body, encoding = a.packer.pack(r.Header.Get("Accept-Encoding"), body)
	return body, encoding, nil
}
