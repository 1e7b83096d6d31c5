//go:build tools

// Package tools names what scripts/h2spec builds.
package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
