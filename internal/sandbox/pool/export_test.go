package pool

import "github.com/execra/tracefleet/internal/sandbox"

// Inner returns the launcher's own sandbox under one that the pool handed out.
func Inner(s sandbox.Sandbox) sandbox.Sandbox { return s.(*lease).unit.box }
