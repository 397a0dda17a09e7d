// The conformance tool of the CloudEvents project as a program: `send`, `invoke`, `listen`, `raw` and `diff`.
//
// `go install` of its command asks for a list of versions that a proxy need not have; a module that names one version does not.
package main

import (
	"log"

	"github.com/cloudevents/conformance/pkg/commands"
	"github.com/spf13/cobra"
)

func main() {
	tool := &cobra.Command{Use: "cloudevents", SilenceUsage: true}
	commands.AddConformanceCommands(tool)
	if err := tool.Execute(); err != nil {
		log.Fatal(err)
	}
}
