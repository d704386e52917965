// Package tracer_test runs the tracer in the sandbox image: every scenario of
// the project, plainly and traced, and decodes what it recorded.
package tracer_test
