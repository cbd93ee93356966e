// Command tidegate is the operator's command line.
//
//	tidegate reset --brokers HOST:PORT --application ID [--execute]
//
// shows, or deletes, what an application keeps in Kafka beside its input and
// output: to begin anew, or in the other mode. It connects without TLS or SASL;
// elsewhere delete the same topics and the group with Kafka's own tools. The
// other commands only say what cannot be done yet and what to do instead:
//
//	tidegate repair  --application ID   a damaged or lost control log
//	tidegate upgrade --application ID   state of a changed topology
//	tidegate forfeit --application ID   give up a lost transaction (R23)
package main

import (
	"fmt"
	"io"
	"os"
)

// refusals are the commands with what to do instead.
var refusals = map[string]string{
	"repair":  "this version cannot repair a control log: restore the topic from a backup, or start under another application id; checkpoints of the old life stay in the store",
	"upgrade": "this version cannot carry state over to a changed topology: stateless steps may change freely, everything else needs another application id",
	"forfeit": "this version cannot give up the output of a lost transaction: go back to the checkpoint before it with RestoreFrom(n, AllowDuplicates), which writes that output again",
}

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// run returns the exit code: 1 for a refusal, 2 for an unknown command.
func run(args []string, out io.Writer) int {
	if len(args) > 0 {
		if args[0] == "reset" {
			return reset(args[1:], out)
		}
		if why, ok := refusals[args[0]]; ok {
			fmt.Fprintf(out, "tidegate %s: %s\n", args[0], why)
			return 1
		}
		fmt.Fprintf(out, "tidegate: no command %q\n", args[0])
	}
	fmt.Fprintln(out, "usage: tidegate reset --brokers HOST:PORT --application ID [--execute]")
	fmt.Fprintln(out, "       tidegate repair | upgrade | forfeit [--application ID]")
	return 2
}
