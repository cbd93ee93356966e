// Package rebalance plans which instance runs which task, and encodes what the
// members of the consumer group tell each other about it.
//
// # The idea
//
// The unit is the task, not the partition: a task reads the same partition of
// every topic of its subtopology, so co-partitioned inputs always stay
// together. Plan gives every active instance its share of each subtopology,
// rounded down or up, and rounds so that the totals differ by at most one as
// well. Among all such roundings it takes one that moves the fewest tasks:
// which instance gets a "rounded up" of which subtopology is a flow problem
// (subtopologies on one side, instances on the other), small enough to solve
// exactly. Within its quota an instance keeps what it has, the heaviest first;
// what is left goes to the instance with the lightest load.
//
// The plan is only the group's proposal. A task runs where the control log's
// Start or handover says (R4), so a plan that is never carried out does no
// harm.
//
// # Invariants
//
//  1. Every task is given to exactly one member; task 0_0, whose owner becomes
//     coordinator (R2), therefore always has an owner.
//  2. A leaving member gets nothing, unless all are leaving: then everything
//     stays where it is, for the stop needs a coordinator.
//  3. Counts per subtopology and in total differ by at most one between active
//     members.
//  4. No plan that satisfies 3 moves fewer tasks.
//  5. The order of the arguments does not matter: every member that computes
//     the plan computes the same.
//
// # What it does not do
//
// No I/O, no clock, no goroutine. Joining the group is internal/kafka's,
// deciding when a plan is carried out is barrier's. Tags are carried for the
// placement of standbys and not used in planning.
package rebalance
