package docker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/wire"
)

// This file is for a proxy before the engine's socket, which lets a worker that
// may have been taken over do no more than an honest one does.

// containerNames is how the containers of a fleet are called.
var containerNames = regexp.MustCompile(`^tracefleet-[0-9a-f]{24}$`)

var hexNames = regexp.MustCompile(`^[0-9a-f]{24}$`)

// createRequest is the body of a request to create a container.
type createRequest struct {
	*container.Config
	HostConfig       *container.HostConfig
	NetworkingConfig json.RawMessage
}

// VetCreate looks at a request to create a container. It returns the body to
// send in its place, which this package has built itself, or says how what was
// asked for differs from every sandbox of this fleet that could be asked for.
func (e *Engine) VetCreate(name string, body []byte, now time.Time) ([]byte, error) {
	if !containerNames.MatchString(name) {
		return nil, fmt.Errorf("the name %.60q is not one that a worker gives", name)
	}
	var asked createRequest
	if err := strictJSON(body, &asked); err != nil {
		return nil, err
	}
	if asked.Config == nil || asked.HostConfig == nil || asked.HostConfig.PidsLimit == nil {
		return nil, errors.New("it is not the configuration of a sandbox")
	}
	t, err := e.vetTag(asked.Labels, now)
	if err != nil {
		return nil, err
	}
	l, err := e.vetLimits(asked.HostConfig)
	if err != nil {
		return nil, err
	}
	want := newSpec(e.cfg, l, e.host, t)
	diffs := diffFields("Config", want.Config, asked.Config)
	diffs = append(diffs, diffFields("HostConfig", want.HostConfig, asked.HostConfig)...)
	if network := map[string]any{}; len(asked.NetworkingConfig) > 0 {
		if json.Unmarshal(asked.NetworkingConfig, &network) != nil {
			return nil, errors.New("NetworkingConfig is not readable")
		}
		diffs = append(diffs, diffFields("NetworkingConfig", map[string]any{}, network)...)
	}
	if len(diffs) > 0 {
		return nil, &RefusedError{Differences: diffs}
	}
	return json.Marshal(container.CreateRequest{Config: want.Config, HostConfig: want.HostConfig, NetworkingConfig: want.Network})
}

// SampleCreate is the body of a request by which this engine would create a
// sandbox with the default limits now.
func (e *Engine) SampleCreate(now time.Time) ([]byte, error) {
	s := newSpec(e.cfg, job.DefaultLimits(), e.host, tag{
		Fleet: e.cfg.Fleet, Worker: e.cfg.Worker, Instance: e.instance, Launched: now, Deadline: now.Add(e.cfg.MaxIdle),
	})
	return json.Marshal(container.CreateRequest{Config: s.Config, HostConfig: s.HostConfig, NetworkingConfig: s.Network})
}

// vetTag reads the labels of a sandbox. That there are no others is seen when
// they are compared.
func (e *Engine) vetTag(labels map[string]string, now time.Time) (tag, error) {
	t, ours := parseTag(labels, e.cfg.Fleet)
	longest := job.MaxLimits().Wall() + e.cfg.MaxIdle + e.cfg.StartTimeout + e.cfg.ReadyTimeout + labelSlack
	switch {
	case !ours:
		return t, fmt.Errorf("it does not have the labels of fleet %s", e.cfg.Fleet)
	case !labelValue.MatchString(t.Worker) || !hexNames.MatchString(t.Instance):
		return t, errors.New("its labels name no worker")
	case t.Launched.Before(now.Add(-labelSlack)) || t.Launched.After(now.Add(labelSlack)) || t.Deadline.After(t.Launched.Add(longest)):
		return t, errors.New("its labels have times that no worker gives")
	}
	return t, nil
}

// vetLimits reads off the limits that a configuration is for, within those that
// a job may have. That it has no others is seen when it is compared.
func (e *Engine) vetLimits(h *container.HostConfig) (job.Limits, error) {
	l := job.DefaultLimits()
	l.TraceBytes = job.MinLimits().TraceBytes
	l.MemoryBytes = h.Memory
	for _, u := range h.Ulimits {
		if u != nil && u.Name == "fsize" {
			l.FileBytes = u.Hard
		}
	}
	l.Processes = processesOf(e.host.Runtime, *h.PidsLimit)
	if err := l.Validate(job.MaxLimits()); err != nil {
		return l, err
	}
	return l, nil
}

// processesOf is the inverse of pidsLimit.
func processesOf(runtime string, limit int64) int64 {
	if gvisor(runtime) {
		return (limit - 256) / 4
	}
	return limit - wire.SupervisorTasks
}

// VetUpdate looks at a request to change the limits of a sandbox, and returns
// the body to send in its place.
func (e *Engine) VetUpdate(body []byte) ([]byte, error) {
	var asked container.UpdateConfig
	if err := strictJSON(body, &asked); err != nil {
		return nil, err
	}
	if asked.PidsLimit == nil {
		return nil, errors.New("it does not limit processes")
	}
	l := job.DefaultLimits()
	l.MemoryBytes, l.Processes = asked.Memory, processesOf(e.host.Runtime, *asked.PidsLimit)
	if err := l.Validate(job.MaxLimits()); err != nil {
		return nil, err
	}
	want := container.UpdateConfig{Resources: container.Resources{
		Memory: l.MemoryBytes, MemorySwap: l.MemoryBytes, PidsLimit: new(pidsLimit(e.host.Runtime, l.Processes)),
	}}
	if diffs := diffFields("Update", want, asked); len(diffs) > 0 {
		return nil, &RefusedError{Differences: diffs}
	}
	return json.Marshal(want)
}

// Owns tells whether labels are those of a sandbox of this fleet.
func (e *Engine) Owns(labels map[string]string) bool {
	t, ours := parseTag(labels, e.cfg.Fleet)
	return ours && labelValue.MatchString(t.Worker)
}

// strictJSON decodes one document without fields that are not known here: what
// they mean to the engine could not be judged.
func strictJSON(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the body is not readable: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body goes on after its end")
	}
	return nil
}
