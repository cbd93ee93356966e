// Command tidegate is the operator's command line.
//
//	tidegate reset   --brokers HOST:PORT --application ID [--checkpoints STORE] [--execute]
//	tidegate repair  --brokers HOST:PORT --application ID --checkpoints STORE [--execute]
//	tidegate upgrade --brokers HOST:PORT --application ID --checkpoints STORE [--execute]
//
// Each shows what it would do, and does it with --execute. reset deletes what an
// application keeps in Kafka beside its input and output, and its checkpoints: to
// begin anew, or in the other mode. repair and upgrade show from which checkpoints a
// new life can begin and what would be written twice, and delete the same but for
// the checkpoints; then the application is started with StartFrom: after its control
// log or a repartition topic was lost, or with a changed topology.
//
// TLS and SASL/PLAIN: --tls, --tls-ca, --tls-cert, --tls-key, --sasl-user, and the
// password in TIDEGATE_SASL_PASSWORD. Where brokers want another mechanism delete the
// same topics and the group with Kafka's own tools, and start with StartFrom("last").
package main

import (
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// run returns the exit code: 1 for a refusal, 2 for an unknown command.
func run(args []string, out io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "reset":
			return reset(args[1:], out)
		case "repair", "upgrade":
			return repair(args[0], args[1:], out)
		case "forfeit":
			fmt.Fprintln(out, "tidegate forfeit: lost output is given up by the application itself: start it with tidegate.AllowLostOutput(n), n being the checkpoint that its error names")
			return 1
		}
		fmt.Fprintf(out, "tidegate: no command %q\n", args[0])
	}
	fmt.Fprintln(out, "usage: tidegate reset --brokers HOST:PORT --application ID [--checkpoints DIR|s3://BUCKET/PREFIX] [--include TOPIC,…] [--execute] [-h]")
	fmt.Fprintln(out, "       tidegate repair | upgrade --brokers HOST:PORT --application ID --checkpoints DIR|s3://BUCKET/PREFIX [--include TOPIC,…] [--execute] [-h]")
	return 2
}
