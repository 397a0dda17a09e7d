// The conformance tool of the CloudEvents project as a program: `send`, `invoke`, `raw` and `diff`, and `receive`, which is its
// `listen` on loopback: prints its port, then what it takes as YAML.
//
// `go install` of its command asks for a list of versions that a proxy need not have; a module that names one version does not.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/cloudevents/conformance/pkg/commands"
	"github.com/cloudevents/conformance/pkg/event"
	conformance "github.com/cloudevents/conformance/pkg/http"
	"github.com/spf13/cobra"
)

func take(answer http.ResponseWriter, request *http.Request) {
	found, err := conformance.RequestToEvent(request)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := event.ToYaml(*found)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Printf("%s---\n", text)
}

func receive(*cobra.Command, []string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	return http.Serve(listener, http.HandlerFunc(take))
}

func main() {
	tool := &cobra.Command{Use: "cloudevents", SilenceUsage: true}
	commands.AddConformanceCommands(tool)
	tool.AddCommand(&cobra.Command{Use: "receive", RunE: receive})
	if err := tool.Execute(); err != nil {
		log.Fatal(err)
	}
}
