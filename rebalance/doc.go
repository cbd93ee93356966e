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
// exactly. Within its quota an instance keeps what it has, the heaviest first.
// What must find a new place goes to an instance that has its state, the newest
// first; as many tasks as possible do, by augmenting paths. The rest goes to the
// instance with the lightest load.
//
// TakeOver gives tasks of a lost instance to who has their state even beyond its
// share, for a while.
//
// HoldBack bounds, in barrier mode, of how many tasks members fetch the state at a
// time to get them; the others stay where they are until the next plan.
//
// PlanStandbys says who keeps a copy of a task's state in barrier mode: far from
// its owner by tags, where there is one already, spread so that the loss of an
// owner is borne by all.
//
// In barrier mode the plan is only the group's proposal. A task runs where the
// control log's Start or handover says (R4), so a plan that is never carried out
// does no harm. In changelog mode the plan is what counts: Withhold takes out of
// it what another member still has, so that an owner closes a task before the
// next one starts it, and the next round gives it out.
//
// Followers says which members follow the changelogs of a task beside its owner.
// Each member computes it by itself from the list of members; nobody has to be
// told. Plan prefers a task's followers when the task needs a new place, and of
// them those that are said to have most of its state.
//
// WarmUp holds a plan back where it would stop output: a task with state stays
// with its owner while the member that shall have it follows, and moves when that
// one is near. A task without an owner goes to who is near, even beyond its share,
// and moves on later.
//
//	             plan: another member
//	owner's only ────────────────────► warm ────────► near ────────────► moved
//	             (no more than Max)     the member joins   owner closed it,
//	                                    again (Behind)     withheld until then
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
//     the plan, or the followers of a task, computes the same.
//  6. Withhold gives no task to a member while another one says that it has it.
//  7. A member that comes or goes changes the followers of no task but those
//     that it follows itself.
//  8. WarmUp takes a task with state from an owner only when the member that gets
//     it is behind by Near at most, or when the owner leaves.
//  9. No more than Max tasks beside those of Followers are followed to be moved.
//     As each move is one of a plan that moves the fewest, the moves end.
//
// # What it does not do
//
// No I/O, no clock, no goroutine. Joining the group is internal/kafka's,
// deciding when a plan is carried out is barrier's or changelog's.
package rebalance
