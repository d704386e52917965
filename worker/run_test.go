package main

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox/docker"
)

func TestOnlyTheRightImage(t *testing.T) {
	t.Parallel()
	facts := docker.Facts{Image: "tracefleet/sandbox:latest", ImageID: "sha256:aa"}
	for digest, ok := range map[string]bool{"": true, "sha256:aa": true, "sha256:bb": false} {
		s := &session{settings: settings{Digest: digest}}
		err := s.checkDigest(facts)
		if (err == nil) != ok {
			t.Errorf("%q: got %v", digest, err)
		}
		if err != nil && !strings.Contains(err.Error(), "sha256:aa") {
			t.Errorf("%v does not say which image is here", err)
		}
	}
	got := command(t.Context(), nil, "--redis", "embedded:0", "--fleet", fleetName(t), "--image-digest", "sha256:bb")
	if got.code != cli.CodeFailed || !strings.Contains(got.stderr, "--image-digest") {
		t.Errorf("got %+v (run `make setup`?)", got)
	}
}

func TestMaximaFitTheBudget(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		budget  cli.Size
		host    int64
		largest int64
		code    int
	}{
		"large host":       {0, 64 << 30, job.MaxLimits().MemoryBytes, cli.CodeDone},
		"small host":       {0, 1 << 30, 858993459, cli.CodeDone},
		"given":            {512 << 20, 64 << 30, 512 << 20, cli.CodeDone},
		"not for any":      {1 << 20, 64 << 30, 0, cli.CodeUsage},
		"nothing is known": {0, 0, 0, cli.CodeUsage},
	} {
		s := &session{settings: settings{Budget: tt.budget}}
		got, err := s.fitBudget(job.MaxLimits(), tt.host, zap.NewNop())
		if cli.Code(err) != tt.code || err == nil && got.MemoryBytes != tt.largest {
			t.Errorf("%s: got %d, error %v, want %d, code %d", name, got.MemoryBytes, err, tt.largest, tt.code)
		}
	}
}
