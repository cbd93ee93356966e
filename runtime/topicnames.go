package runtime

// ControlTopic returns the name of the topic that holds the control log of
// barrier mode: "A-control".
func ControlTopic(applicationID string) string { return applicationID + "-control" }
