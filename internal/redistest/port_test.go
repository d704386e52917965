package redistest

import "testing"

// TestPortIsKeptWhileTheServerIsDown: another test's server in its place would keep it from coming back.
func TestPortIsKeptWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	server := Start(t, Options{})
	server.Kill()
	if taken, err := claimOf(server.port); err == nil {
		_ = taken.Close()
		t.Error("the port of a server that is down can be claimed")
	}
	server.Restart()
	if err := server.Client().Ping(t.Context()).Err(); err != nil {
		t.Errorf("got error %v after the restart", err)
	}
}
